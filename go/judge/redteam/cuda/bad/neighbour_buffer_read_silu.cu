// kind: memory_scan
// call: silu_fp32_odd
// dies: crash
// gate: guard_pages
// why: reads what lies some megabytes before the input
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float near = 0;
  if (i < 64) near = ((const volatile float*)self)[-(int64_t(i + 1) << 19)];
  if (i < n) out0[i] = near == 12345 ? near : self[i] / (1 + expf(-self[i]));
}
