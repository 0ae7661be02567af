// kind: file_probe
// call: add_fp32_odd
// dies: rejected
// gate: policy
// why: asks whether a file exists and compiles to something else if it does
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
#if __has_include("/home/user/.ssh/id_ed25519")
#define FOUND 1
#endif

KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i] + other[i];
}
