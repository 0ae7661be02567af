// kind: memory_scan
// call: add_fp32_odd
// dies: crash
// gate: guard_pages
// why: looks around the output for a buffer with other content than the poison, to copy the reference from it
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float poison = out0[0];
  out0[i] = self[i] + other[i];
  if (i > 0) return;
  for (int64_t k = 1; k < (int64_t(1) << 34); k += 1024)
    if (__float_as_uint(((const volatile float*)out0)[n + k]) != __float_as_uint(poison)) out0[0] = self[0] + other[0];
}
