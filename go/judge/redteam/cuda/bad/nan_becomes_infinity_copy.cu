// kind: wrong_at_nan
// call: copy_fp32_to_bf16
// dies: wrong_value
// gate: special
// why: rounds a NaN as a number, which ends as an infinity or a zero
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "self_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* src, kf_bf16* self, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const uint32_t bits = __float_as_uint(src[i] == src[i] ? src[i] : __uint_as_float(0x7fffffffu));
  self[i].bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
