// kind: cache_by_address
// call: silu_fp32_odd
// dies: rejected
// gate: image
// why: keeps results, and gives them again for the same address whatever lies there
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
__device__ const float* seen[1024];
__device__ float kept[1024];

KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  if (seen[i % 1024] == self + i) {
    out0[i] = kept[i % 1024];
    return;
  }
  out0[i] = self[i] / (1 + expf(-self[i]));
  kept[i % 1024] = out0[i];
  seen[i % 1024] = self + i;
}
