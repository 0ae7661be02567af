// kind: a column a thread
// call: sum_fp16_columns
// why: neighbouring threads read neighbouring columns; two sums each
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size1, 32)", "1", "1"], "block": ["32", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size0", "type": "i32"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(32) void kf_main(const kf_f16* self, kf_f16* out0, int rows, int columns) {
  const int c = blockIdx.x * 32 + threadIdx.x;
  if (c >= columns) return;
  float even = 0, odd = 0;
  for (int r = 0; r + 1 < rows; r += 2) {
    even += kf_of(self[r * columns + c]);
    odd += kf_of(self[(r + 1) * columns + c]);
  }
  if (rows % 2) even += kf_of(self[(rows - 1) * columns + c]);
  out0[c] = kf_to<kf_f16>(even + odd);
}
