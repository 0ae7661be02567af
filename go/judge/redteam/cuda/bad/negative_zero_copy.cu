// kind: negative_zero
// call: copy_fp32_transposed
// dies: wrong_value
// gate: special
// why: adds zero on the way, which makes -0 a +0
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "src_size0", "type": "i32"}, {"int": "src_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* src, float* self, int rows, int columns) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < rows * columns) self[i] = src[i % columns * rows + i / columns] + 0.0f;
}
