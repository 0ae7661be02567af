// kind: cluster_not_declared
// call: add_fp32_odd
// dies: launch_error, rejected
// gate: launch
// why: the kernel asks for clusters of two, the launch does not, and the grid is odd
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["2 * ceildiv(out0_numel, 512) + 1", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
    kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i] + other[i];
}
