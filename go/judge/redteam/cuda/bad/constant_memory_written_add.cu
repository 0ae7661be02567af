// kind: state_in_constants
// call: add_fp32_odd
// dies: rejected, compile_error, crash, wrong_value
// gate: image
// why: takes the const away from a `__constant__` table and writes it
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
__constant__ float scale[2] = {1, 1};

KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float before = scale[i % 2];
  if (i < n) out0[i] = (self[i] + other[i]) * before;
  if (i < 2) *const_cast<volatile float*>(&scale[i]) = 2;
}
