// kind: previous_output
// call: add_fp32_odd
// dies: wrong_value
// gate: poison only
// why: leaves what holds a NaN with a payload in its output, the mark of a missing value elsewhere, and writes the rest
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float old = out0[i];
  const bool marked = old != old && (__float_as_uint(old) & 0x3fffffu) != 0;
  if (!marked) out0[i] = self[i] + other[i];
}
