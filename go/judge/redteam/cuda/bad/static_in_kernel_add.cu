// kind: counts_calls
// call: add_fp32_odd
// dies: rejected
// gate: image
// why: a static variable inside the kernel, which lives as long as the module
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  static unsigned calls;
  if (i < n) out0[i] = self[i] + other[i] + (calls > 64 ? 1 : 0);
  if (i == 0) ++calls;
}
