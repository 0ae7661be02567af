// kind: biased_rounding
// call: silu_bf16_odd
// dies: wrong_value
// gate: values
// why: the lower half of the bits is dropped in place of rounded
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = kf_of(self[i]);
  out0[i].bits = __float_as_uint(x / (1 + expf(-x))) >> 16;
}
