// kind: in place
// call: relu_bf16_inplace
// why: reads an element before it writes it
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"int": "self_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(kf_bf16* self, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) self[i] = kf_to<kf_bf16>(kf_max(kf_of(self[i]), 0.0f));
}
