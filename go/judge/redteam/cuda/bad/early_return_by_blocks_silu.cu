// kind: early_return
// call: silu_fp32_odd
// dies: wrong_value
// gate: poison
// why: a block leaves its part of the output as it is where the first element is right already
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int first = blockIdx.x * 256, i = first + threadIdx.x;
  const bool done = out0[first] == self[first] / (1 + expf(-self[first]));
  __syncthreads();
  if (done || i >= n) return;
  out0[i] = self[i] / (1 + expf(-self[i]));
}
