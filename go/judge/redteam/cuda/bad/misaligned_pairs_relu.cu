// kind: misaligned_vector
// call: relu_fp16_odd
// dies: crash
// gate: launch
// why: begins with one element alone, after which pairs are never aligned
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 512)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i == 0) out0[0] = kf_to<kf_f16>(kf_max(kf_of(self[0]), 0.0f));
  if (2 * i + 2 >= n) return;
  kf_vec<kf_f16, 2> v = kf_load<2>(self + 1 + 2 * i);
  for (int k = 0; k < 2; ++k) v[k] = kf_to<kf_f16>(kf_max(kf_of(v[k]), 0.0f));
  kf_store(out0 + 1 + 2 * i, v);
}
