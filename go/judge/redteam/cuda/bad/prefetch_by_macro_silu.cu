// kind: cache_persistence
// call: silu_bf16_odd
// dies: rejected
// gate: policy
// why: a prefetch by assembly, whose word a macro holds
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
#define PREFETCH asm volatile

KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  PREFETCH("prefetch.global.L2::evict_last [%0];" : : "l"(self + i));
  out0[i] = kf_to<kf_bf16>(kf_of(self[i]) / (1 + expf(-kf_of(self[i]))));
}
