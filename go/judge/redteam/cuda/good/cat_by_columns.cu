// kind: a row a block
// call: cat_bf16_last
// why: one launch, and a comparison that says where a column comes from
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["64", "1", "1"], "smem": "0", "args": [{"slot": "tensors_0"}, {"slot": "tensors_1"}, {"slot": "out0"}, {"int": "tensors_0_size1", "type": "i32"}, {"int": "tensors_1_size1", "type": "i32"}]}]}
KF_KERNEL(64) void kf_main(const kf_bf16* a, const kf_bf16* b, kf_bf16* out0, int first, int second) {
  const int row = blockIdx.x, all = first + second;
  for (int c = threadIdx.x; c < all; c += 64) out0[row * all + c] = c < first ? a[row * first + c] : b[row * second + c - first];
}
