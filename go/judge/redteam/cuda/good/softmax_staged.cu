// kind: row in dynamic shared memory
// call: softmax_fp32
// why: the row is read once and its exponentials are kept
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "self_size1 * 4", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  extern __shared__ float staged[];
  const float* x = self + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  float top = -kf_infinity<float>();
  for (int i = threadIdx.x; i < n; i += 256) top = kf_max(top, staged[i] = x[i]);
  top = kf_block_fold<256>(top, kf_max_of());
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += staged[i] = expf(staged[i] - top);
  sum = kf_block_fold<256>(sum, kf_sum_of());
  for (int i = threadIdx.x; i < n; i += 256) y[i] = staged[i] / sum;
}
