// kind: block_limit
// call: add_fp32_odd
// dies: launch_error
// gate: launch
// why: blocks of 2,048 threads
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 2048)", "1", "1"], "block": ["2048", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
extern "C" __global__ void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 2048 + threadIdx.x;
  if (i < n) out0[i] = self[i] + other[i];
}
