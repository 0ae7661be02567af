// kind: several elements a thread
// call: add_fp32_odd
// why: eight loads in flight for each thread
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 2048)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int first = blockIdx.x * 2048 + threadIdx.x;
  float a[8], b[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int i = min(first + k * 256, n - 1);
    a[k] = self[i];
    b[k] = other[i];
  }
#pragma unroll
  for (int k = 0; k < 8; ++k)
    if (first + k * 256 < n) out0[first + k * 256] = a[k] + b[k];
}
