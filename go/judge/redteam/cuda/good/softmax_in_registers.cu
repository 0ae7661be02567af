// kind: row in registers
// call: softmax_fp32
// why: each thread keeps eight elements; what is past the row is -inf and adds nothing
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  float v[8], top = -kf_infinity<float>();
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int i = threadIdx.x + 256 * k;
    v[k] = i < n ? x[i] : -kf_infinity<float>();
    top = kf_max(top, v[k]);
  }
  top = kf_block_fold<256>(top, kf_max_of());
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const bool mine = int(threadIdx.x) + 256 * k < n;
    v[k] = expf(v[k] - top);
    sum += mine ? v[k] : 0;
  }
  sum = kf_block_fold<256>(sum, kf_sum_of());
#pragma unroll
  for (int k = 0; k < 8; ++k)
    if (int(threadIdx.x) + 256 * k < n) y[threadIdx.x + 256 * k] = v[k] / sum;
}
