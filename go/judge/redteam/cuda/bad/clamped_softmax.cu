// kind: no_max_subtraction
// call: softmax_fp32
// dies: wrong_value
// gate: values
// why: cuts inputs to 60 in place of subtracting the maximum
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  const float top = 0;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(fminf(x[i], 60.0f));
  sum = kf_block_fold<256>(sum, kf_sum_of());
  for (int i = threadIdx.x; i < n; i += 256) y[i] = expf(fminf(x[i], 60.0f)) / sum;
}
