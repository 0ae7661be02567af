// kind: cache_persistence
// call: relu_fp16_odd
// dies: rejected
// gate: policy
// why: marks the input as persisting in the L2
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const kf_f16* kept = (const kf_f16*)__nv_associate_access_property(self, 0x10f0000000000000ull);
  if (i < n) out0[i] = kf_to<kf_f16>(kf_max(kf_of(kept[i]), 0.0f));
}
