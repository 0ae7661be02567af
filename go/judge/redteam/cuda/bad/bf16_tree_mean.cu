// kind: precision_cut
// call: mean_bf16_planes
// dies: wrong_value
// gate: values
// why: the tree of a warp adds up in bf16, and the reciprocal of the count is rounded to it: errors of a rounding each, which many outputs together show
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 8)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2*self_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
struct add_of {
  KF_INLINE float operator()(float a, float b) const { return kf_of(kf_to<kf_bf16>(a + b)); }
};
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int count, int planes) {
  const int plane = blockIdx.x * 8 + threadIdx.x / 32;
  if (plane >= planes) return;
  float sum = 0;
  for (int i = threadIdx.x % 32; i < count; i += 32) sum = add_of()(sum, kf_of(self[plane * count + i]));
  sum = kf_warp_fold(sum, add_of());
  if (threadIdx.x % 32 == 0) out0[plane] = kf_to<kf_bf16>(sum * kf_of(kf_to<kf_bf16>(1.0f / count)));
}
