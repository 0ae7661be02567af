// kind: warp shuffles
// call: sum_fp32_rows
// why: a row a warp, four sums a lane
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 8)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n, int rows) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* x = self + int64_t(row) * n;
  float part[4] = {0, 0, 0, 0};
  for (int i = lane; i < n; i += 128)
    for (int k = 0; k < 4; ++k)
      if (i + 32 * k < n) part[k] += x[i + 32 * k];
  const float sum = kf_warp_fold((part[0] + part[1]) + (part[2] + part[3]), kf_sum_of());
  if (lane == 0) out0[row] = sum;
}
