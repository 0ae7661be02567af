// kind: grid of rows
// call: add_fp32_odd
// why: blocks of 11 by 16 threads over rows and columns
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["1", "ceildiv(out0_size0*out0_size1, 16)", "1"], "block": ["11", "16", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size0*out0_size1", "type": "i32"}]}]}
KF_KERNEL(176) void kf_main(const float* self, const float* other, float* out0, int columns, int rows) {
  const int row = blockIdx.y * 16 + threadIdx.y;
  if (row >= rows) return;
  for (int c = threadIdx.x; c < columns; c += 11) out0[row * columns + c] = self[row * columns + c] + other[row * columns + c];
}
