// kind: row in registers
// call: layer_norm_fp32
// why: four elements a thread, read once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int n) {
  const float* x = input + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  float v[4], sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = threadIdx.x + 256 * k;
    v[k] = i < n ? x[i] : 0;
    sum += v[k];
  }
  const float mean = kf_block_fold<256>(sum, kf_sum_of()) / n;
  float squares = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (int(threadIdx.x) + 256 * k < n) squares += (v[k] - mean) * (v[k] - mean);
  const float rstd = rsqrtf(kf_block_fold<256>(squares, kf_sum_of()) / n + 1e-5f);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = threadIdx.x + 256 * k;
    if (i < n) y[i] = (v[k] - mean) * rstd * weight[i] + bias[i];
  }
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
