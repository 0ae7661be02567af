// kind: row in dynamic shared memory
// call: layer_norm_fp32
// why: the row is read once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "input_size1 * 4", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int n) {
  extern __shared__ float staged[];
  const float* x = input + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += staged[i] = x[i];
  const float mean = kf_block_fold<256>(sum, kf_sum_of()) / n;
  float squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) {
    staged[i] -= mean;
    squares += staged[i] * staged[i];
  }
  const float rstd = rsqrtf(kf_block_fold<256>(squares, kf_sum_of()) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += 256) y[i] = staged[i] * rstd * weight[i] + bias[i];
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
