// kind: in_place_read_twice
// call: relu_bf16_inplace
// dies: wrong_value
// gate: exhaustive
// why: in place, with an element of what a neighbour thread may have overwritten
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"int": "self_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(kf_bf16* self, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = kf_of(self[i]);
  self[i] = kf_to<kf_bf16>(kf_max(x, 0.0f) + (i + 1 < n && kf_of(self[i + 1]) < 0 ? 1 : 0));
}
