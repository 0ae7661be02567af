// kind: block_limit
// call: add_fp32_odd
// dies: launch_error
// gate: launch
// why: a launch of 1,024 threads of a kernel that is compiled for at most 256
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 1024)", "1", "1"], "block": ["1024", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 1024 + threadIdx.x;
  if (i < n) out0[i] = self[i] + other[i];
}
