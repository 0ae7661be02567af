// kind: cross_block_dependence
// call: relu_fp32_large
// dies: timeout
// gate: deadline
// why: every block waits until all have begun, and the device does not hold them all
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "4", "zeroed": true}], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "ws0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, unsigned* ws0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (threadIdx.x == 0) {
    atomicAdd(ws0, 1u);
    while (*(volatile unsigned*)ws0 < gridDim.x) {}
  }
  __syncthreads();
  if (i < n) out0[i] = kf_max(self[i], 0.0f);
}
