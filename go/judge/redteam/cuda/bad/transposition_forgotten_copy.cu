// kind: stride_ignored
// call: copy_fp32_transposed
// dies: wrong_value
// gate: values
// why: copies memory in its order
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "self_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* src, float* self, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) self[i] = src[i];
}
