// kind: workspace between two kernels
// call: layer_norm_fp32
// why: statistics in one launch, elements in the other; the statistics that are saved serve as the workspace
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_moments", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}, {"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out1"}, {"slot": "out2"}, {"slot": "out0"}, {"int": "input_size1", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_moments(const float* input, float* out1, float* out2, int n) {
  const float* x = input + int64_t(blockIdx.x) * n;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  const float mean = kf_block_fold<256>(sum, kf_sum_of()) / n;
  for (int i = threadIdx.x; i < n; i += 256) squares += (x[i] - mean) * (x[i] - mean);
  squares = kf_block_fold<256>(squares, kf_sum_of());
  if (threadIdx.x > 0) return;
  out1[blockIdx.x] = mean;
  out2[blockIdx.x] = rsqrtf(squares / n + 1e-5f);
}
KF_KERNEL(256)
void kf_main(const float* input, const float* weight, const float* bias, const float* out1, const float* out2, float* out0, int n,
             int count) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < count) out0[i] = (input[i] - out1[i / n]) * out2[i / n] * weight[i % n] + bias[i % n];
}
