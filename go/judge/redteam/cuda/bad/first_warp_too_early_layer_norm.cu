// kind: missing_barrier
// call: layer_norm_fp32
// dies: wrong_value
// gate: values
// why: the first warp adds up what the other warps have not written yet
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int n) {
  __shared__ volatile float part[256];
  __shared__ volatile float middle;
  const float* x = input + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  part[threadIdx.x] = sum;
  if (threadIdx.x < 32) {
    sum = 0;
    for (int w = 7; w >= 0; --w) sum += part[32 * w + threadIdx.x];
    sum = kf_warp_fold(sum, kf_sum_of());
    if (threadIdx.x == 0) middle = sum / n;
  }
  __syncthreads();
  const float mean = middle;
  float squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) squares += (x[i] - mean) * (x[i] - mean);
  const float rstd = rsqrtf(kf_block_fold<256>(squares, kf_sum_of()) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += 256) y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
