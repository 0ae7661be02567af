// kind: partial_write
// call: layer_norm_bf16
// dies: wrong_value
// gate: poison
// why: columns go in pairs, and the row has an odd number of them
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(256)
void kf_main(const kf_bf16* input, const kf_bf16* weight, const kf_bf16* bias, kf_bf16* out0, float* out1, float* out2, int n) {
  const kf_bf16* x = input + int64_t(blockIdx.x) * n;
  kf_bf16* y = out0 + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += kf_of(x[i]);
  const float mean = kf_block_fold<256>(sum, kf_sum_of()) / n;
  float squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) {
    const float d = kf_of(x[i]) - mean;
    squares += d * d;
  }
  const float rstd = rsqrtf(kf_block_fold<256>(squares, kf_sum_of()) / n + 1e-5f);
  for (int i = threadIdx.x; i < n / 2; i += 256)
    for (int k = 2 * i; k < 2 * i + 2; ++k) y[k] = kf_to<kf_bf16>((kf_of(x[k]) - mean) * rstd * kf_of(weight[k]) + kf_of(bias[k]));
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
