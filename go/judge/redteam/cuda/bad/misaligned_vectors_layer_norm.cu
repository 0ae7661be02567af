// kind: misaligned_vector
// call: layer_norm_bf16
// dies: crash
// gate: launch
// why: 16-byte loads in rows that begin at any element
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(256)
void kf_main(const kf_bf16* input, const kf_bf16* weight, const kf_bf16* bias, kf_bf16* out0, float* out1, float* out2, int n) {
  const kf_bf16* x = input + int64_t(blockIdx.x) * n;
  kf_bf16* y = out0 + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n / 8; i += 256) {
    const kf_vec<kf_bf16, 8> v = kf_load<8>(x + 8 * i);
    for (int k = 0; k < 8; ++k) sum += kf_of(v[k]);
  }
  for (int i = n / 8 * 8 + threadIdx.x; i < n; i += 256) sum += kf_of(x[i]);
  const float mean = kf_block_fold<256>(sum, kf_sum_of()) / n;
  float squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) {
    const float d = kf_of(x[i]) - mean;
    squares += d * d;
  }
  const float rstd = rsqrtf(kf_block_fold<256>(squares, kf_sum_of()) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += 256) y[i] = kf_to<kf_bf16>((kf_of(x[i]) - mean) * rstd * kf_of(weight[i]) + kf_of(bias[i]));
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
