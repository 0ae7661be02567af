// kind: an index by division
// call: copy_fp16_heads
// why: four coordinates from one number
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "self_numel", "type": "i32"}, {"int": "src_size1", "type": "i32"}, {"int": "src_size2", "type": "i32"}, {"int": "src_size3", "type": "i32"}, {"int": "src_stride0", "type": "i32"}, {"int": "src_stride1", "type": "i32"}, {"int": "src_stride2", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* src, kf_f16* self, int n, int heads, int rows, int columns, int image, int head, int row) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int to = i, c = i % columns;
  i /= columns;
  const int r = i % rows;
  i /= rows;
  self[to] = src[i / heads * image + i % heads * head + r * row + c];
}
