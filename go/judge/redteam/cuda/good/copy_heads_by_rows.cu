// kind: a row a block
// call: copy_fp16_heads
// why: a block moves one row of one head
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["src_size0*src_size1*src_size2", "1", "1"], "block": ["64", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "src_size1", "type": "i32"}, {"int": "src_size2", "type": "i32"}, {"int": "src_size3", "type": "i32"}, {"int": "src_stride0", "type": "i32"}, {"int": "src_stride1", "type": "i32"}, {"int": "src_stride2", "type": "i32"}]}]}
KF_KERNEL(64) void kf_main(const kf_f16* src, kf_f16* self, int heads, int rows, int columns, int image, int head, int row) {
  const int r = blockIdx.x % rows, h = blockIdx.x / rows % heads, b = blockIdx.x / (rows * heads);
  for (int c = threadIdx.x; c < columns; c += 64) self[blockIdx.x * columns + c] = src[b * image + h * head + r * row + c];
}
