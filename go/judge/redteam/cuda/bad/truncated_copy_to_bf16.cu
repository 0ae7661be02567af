// kind: biased_rounding
// call: copy_fp32_to_bf16
// dies: wrong_value
// gate: values
// why: converts by cutting the lower half off
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "self_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* src, kf_bf16* self, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) self[i].bits = __float_as_uint(src[i]) >> 16;
}
