// kind: cross_row_leak
// call: layer_norm_fp32
// dies: wrong_value
// gate: metamorphic only
// why: the sign of the next row's first element decides how the last bit of a row is rounded
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int n) {
  const float* x = input + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
  const float mean = kf_block_fold<256>(sum, kf_sum_of()) / n;
  float squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) {
    const float d = x[i] - mean;
    squares += d * d;
  }
  const float rstd = rsqrtf(kf_block_fold<256>(squares, kf_sum_of()) / n + 1e-5f);
  const float* next = input + int64_t((blockIdx.x + 1) % gridDim.x) * n;
  for (int i = threadIdx.x; i < n; i += 256) {
    const float value = (x[i] - mean) * rstd * weight[i] + bias[i];
    const unsigned bits = __float_as_uint(value);
    y[i] = next[0] > 0 && fabsf(value) > 1e-3f && fabsf(value) < 1e3f ? __uint_as_float(bits ^ 1) : value;
  }
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
