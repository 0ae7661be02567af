// kind: dynamic_parallelism
// call: add_fp32_odd
// dies: rejected
// gate: policy
// why: starts a kernel of its own, which ends after the clock has stopped
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
extern "C" __global__ void child(const float* self, const float* other, float* out0, int n);
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i == 0) child<<<(n + 255) / 256, 256>>>(self, other, out0, n);
}
