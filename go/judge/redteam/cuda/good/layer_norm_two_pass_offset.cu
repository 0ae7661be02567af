// kind: two passes
// call: layer_norm_fp32_offset
// why: mean first, then what is left of it, then the squares
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int n) {
  const float* x = input + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  const float mean = kf_block_fold<256>(sum, kf_sum_of()) / n;
  float squares = 0, left = 0;
  for (int i = threadIdx.x; i < n; i += 256) left += x[i] - mean;
  const float off = kf_block_fold<256>(left, kf_sum_of()) / n;  // what the sum has rounded off the mean
  for (int i = threadIdx.x; i < n; i += 256) {
    const float d = x[i] - mean - off;
    squares += d * d;
  }
  const float rstd = rsqrtf(kf_block_fold<256>(squares, kf_sum_of()) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += 256) y[i] = (x[i] - mean - off) * rstd * weight[i] + bias[i];
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean + off;
    out2[blockIdx.x] = rstd;
  }
}
