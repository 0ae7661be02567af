// kind: pairwise
// call: sum_fp32_rows
// why: one thread a row adds up blocks of 16 and joins equal blocks, as a binary counter does
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 32)", "1", "1"], "block": ["32", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(32) void kf_main(const float* self, float* out0, int n, int rows) {
  const int row = blockIdx.x * 32 + threadIdx.x;
  if (row >= rows) return;
  const float* x = self + int64_t(row) * n;
  float level[24] = {};
  int blocks = 0;
  for (int begin = 0; begin < n; begin += 16, ++blocks) {
    float sum = 0;
    for (int i = begin; i < min(begin + 16, n); ++i) sum += x[i];
    int k = 0;
    for (; blocks >> k & 1; ++k) sum += level[k];
    level[k] = sum;
  }
  float sum = 0;
  for (int k = 0; k < 24; ++k)
    if (blocks >> k & 1) sum += level[k];
  out0[row] = sum;
}
