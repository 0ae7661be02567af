// kind: warp shuffles
// call: softmax_fp32
// why: a row a warp
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 4)", "1", "1"], "block": ["128", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(128) void kf_main(const float* self, float* out0, int n, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* x = self + int64_t(row) * n;
  float top = -kf_infinity<float>();
  for (int i = lane; i < n; i += 32) top = kf_max(top, x[i]);
  top = kf_warp_fold(top, kf_max_of());
  float sum = 0;
  for (int i = lane; i < n; i += 32) sum += expf(x[i] - top);
  sum = kf_warp_fold(sum, kf_sum_of());
  for (int i = lane; i < n; i += 32) out0[int64_t(row) * n + i] = expf(x[i] - top) / sum;
}
