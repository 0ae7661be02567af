// kind: workspace between kernels
// call: softmax_fp32
// why: maximum, sum and result are launches of their own
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "self_size0 * 4", "zeroed": false}, {"bytes": "self_size0 * 4", "zeroed": false}], "kernels": [{"entry": "kf_top", "grid": ["self_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "ws0"}, {"int": "self_size1", "type": "i32"}]}, {"entry": "kf_sum", "grid": ["self_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "ws0"}, {"slot": "ws1"}, {"int": "self_size1", "type": "i32"}]}, {"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "ws0"}, {"slot": "ws1"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_top(const float* self, float* ws0, int n) {
  float top = -kf_infinity<float>();
  for (int i = threadIdx.x; i < n; i += 256) top = kf_max(top, self[int64_t(blockIdx.x) * n + i]);
  top = kf_block_fold<256>(top, kf_max_of());
  if (threadIdx.x == 0) ws0[blockIdx.x] = top;
}
KF_KERNEL(256) void kf_sum(const float* self, const float* ws0, float* ws1, int n) {
  const float top = ws0[blockIdx.x];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(self[int64_t(blockIdx.x) * n + i] - top);
  sum = kf_block_fold<256>(sum, kf_sum_of());
  if (threadIdx.x == 0) ws1[blockIdx.x] = sum;
}
KF_KERNEL(256) void kf_main(const float* self, const float* ws0, const float* ws1, float* out0, int n, int count) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < count) out0[i] = expf(self[i] - ws0[i / n]) / ws1[i / n];
}
