// kind: warp shuffles
// call: layer_norm_bf16
// why: a row a warp
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(input_size0, 4)", "1", "1"], "block": ["128", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}, {"int": "input_size0", "type": "i32"}]}]}
KF_KERNEL(128)
void kf_main(const kf_bf16* input, const kf_bf16* weight, const kf_bf16* bias, kf_bf16* out0, float* out1, float* out2, int n, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const kf_bf16* x = input + int64_t(row) * n;
  float sum = 0, squares = 0;
  for (int i = lane; i < n; i += 32) sum += kf_of(x[i]);
  const float mean = kf_warp_fold(sum, kf_sum_of()) / n;
  for (int i = lane; i < n; i += 32) squares += (kf_of(x[i]) - mean) * (kf_of(x[i]) - mean);
  const float rstd = rsqrtf(kf_warp_fold(squares, kf_sum_of()) / n + 1e-5f);
  for (int i = lane; i < n; i += 32)
    out0[int64_t(row) * n + i] = kf_to<kf_bf16>((kf_of(x[i]) - mean) * rstd * kf_of(weight[i]) + kf_of(bias[i]));
  if (lane == 0) {
    out1[row] = mean;
    out2[row] = rstd;
  }
}
