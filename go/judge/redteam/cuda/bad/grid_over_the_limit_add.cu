// kind: grid_limit
// call: add_fp32_odd
// dies: launch_error
// gate: launch
// why: a grid of 68,442 blocks along y, where 65,535 are the most
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["1", "2 * out0_numel", "1"], "block": ["1", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.y;
  if (i < n) out0[i] = self[i] + other[i];
}
