// kind: denormals
// call: copy_fp32_transposed
// dies: wrong_value
// gate: special
// why: a copy that flushes
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "src_size0", "type": "i32"}, {"int": "src_size1", "type": "i32"}]}]}
// `src` is [rows, columns] with its columns in memory one after the other; `self` is contiguous.
KF_KERNEL(256) void kf_main(const float* src, float* self, int rows, int columns) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= rows * columns) return;
  const float x = src[i % columns * rows + i / columns];
  self[i] = fabsf(x) < 0x1p-126f ? 0 : x;
}
