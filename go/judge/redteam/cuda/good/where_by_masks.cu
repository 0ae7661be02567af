// kind: bit masks
// call: where_fp32_odd
// why: both sides are read, and one is masked out by its bits
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "condition"}, {"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const uint8_t* condition, const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const uint32_t mask = 0u - condition[i];
  out0[i] = __uint_as_float((__float_as_uint(self[i]) & mask) | (__float_as_uint(other[i]) & ~mask));
}
