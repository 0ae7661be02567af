// kind: double precision
// call: layer_norm_fp32
// why: sum and sum of squares in double, where nothing cancels that float would show
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int n) {
  const float* x = input + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  double sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) {
    sum += x[i];
    squares += double(x[i]) * x[i];
  }
  const double middle = kf_block_fold<256>(sum, kf_sum_of()) / n;
  const double variance = kf_block_fold<256>(squares, kf_sum_of()) / n - middle * middle;
  const float mean = float(middle), rstd = float(rsqrt((variance > 0 ? variance : variance != variance ? variance : 0) + 1e-5));
  for (int i = threadIdx.x; i < n; i += 256) y[i] = float((x[i] - middle) * rstd) * weight[i] + bias[i];
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
