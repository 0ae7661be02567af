// kind: a kernel for each input
// call: cat_bf16_last
// why: two launches, each of which fills its columns
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(tensors_0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "tensors_0"}, {"slot": "out0"}, {"int": "tensors_0_size1", "type": "i32"}, {"int": "out0_size1", "type": "i32"}, {"int": "0", "type": "i32"}, {"int": "tensors_0_numel", "type": "i32"}]}, {"entry": "kf_main", "grid": ["ceildiv(tensors_1_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "tensors_1"}, {"slot": "out0"}, {"int": "tensors_1_size1", "type": "i32"}, {"int": "out0_size1", "type": "i32"}, {"int": "tensors_0_size1", "type": "i32"}, {"int": "tensors_1_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* part, kf_bf16* out0, int columns, int all, int first, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i / columns * all + first + i % columns] = part[i];
}
