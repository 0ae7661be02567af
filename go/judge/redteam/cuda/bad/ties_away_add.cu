// kind: biased_rounding
// call: add_bf16_odd
// dies: wrong_value
// gate: values
// why: ties go away from zero in place of to the even number
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, const kf_bf16* other, kf_bf16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float sum = kf_of(self[i]) + kf_of(other[i]);
  out0[i].bits = sum != sum ? 0x7fff : (__float_as_uint(sum) + 0x8000) >> 16;
}
