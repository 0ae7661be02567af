// kind: grid_of_the_timed_run
// call: silu_fp32_odd
// dies: wrong_value
// gate: poison
// why: one block for each multiprocessor and no loop: right only where that is enough
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["min(ceildiv(out0_numel, 256), sm_count)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i] / (1 + expf(-self[i]));
}
