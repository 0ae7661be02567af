// kind: one thread an element
// call: copy_fp32_transposed
// why: the source's address from row and column
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(src_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "src_size0", "type": "i32"}, {"int": "src_size1", "type": "i32"}, {"int": "src_stride0", "type": "i32"}, {"int": "src_stride1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* src, float* self, int rows, int columns, int down, int right) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < rows * columns) self[i] = src[i / columns * down + i % columns * right];
}
