// kind: out_of_bounds
// call: add_fp32_odd
// dies: crash
// gate: guard_pages only
// why: reads behind the end, past what alignment leaves free, and does not use it
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i] + other[i];
  if (i == n - 1) (void)*(const volatile float*)(self + n + 3);
}
