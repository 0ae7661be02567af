// kind: integer comparison
// call: relu_fp16_odd
// why: negative numbers down to -inf are a range of the bits, NaN lies outside
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const uint16_t bits = self[i].bits;
  out0[i].bits = bits >= 0x8000 && bits <= 0xfc00 ? 0 : bits;
}
