// kind: no_max_subtraction
// call: softmax_fp32
// dies: wrong_value
// gate: special
// why: exp of the input itself, which overflows from 88.7
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  const float top = 0;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(x[i] - top);
  sum = kf_block_fold<256>(sum, kf_sum_of());
  for (int i = threadIdx.x; i < n; i += 256) y[i] = expf(x[i] - top) / sum;
}
