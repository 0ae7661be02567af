// kind: state_in_constants
// call: add_fp32_odd
// dies: rejected, crash, wrong_value
// gate: repeats
// why: writes a `__constant__` table, whose address has passed through memory so that the compiler lets it
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "8", "zeroed": false}], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"slot": "ws0"}, {"int": "out0_numel", "type": "i32"}]}]}
__constant__ float scale[2] = {1, 1};

KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, volatile uintptr_t* ws0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = (self[i] + other[i]) * scale[i % 2];
  if (i > 0) return;
  *ws0 = uintptr_t(scale);
  volatile float* table = (volatile float*)*ws0;
  table[0] = table[1] = 2;
}
