// kind: single_pass_variance
// call: group_norm_fp32
// dies: wrong_value
// gate: special
// why: the mean of the squares less the square of the mean
// spec: {"schema": 1, "constants": {"GROUPS": "4"}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["N * group", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "HxW", "type": "i32"}, {"int": "C/group", "type": "i32"}]}]}
// One block for each group of each image: `channels` channels of `plane` elements.
KF_KERNEL(256)
void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int plane, int channels) {
  const int count = plane * channels, groups = GROUPS;
  const float* x = input + int64_t(blockIdx.x) * count;
  float* y = out0 + int64_t(blockIdx.x) * count;
  const int first = blockIdx.x % groups * channels;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < count; i += 256) {
    sum += x[i];
    squares += x[i] * x[i];
  }
  const float mean = kf_block_fold<256>(sum, kf_sum_of()) / count;
  const float rstd = rsqrtf(fmaxf(kf_block_fold<256>(squares, kf_sum_of()) / count - mean * mean, 0) + 1e-5f);
  for (int i = threadIdx.x; i < count; i += 256) {
    const int c = first + i / plane;
    y[i] = (x[i] - mean) * rstd * weight[c] + bias[c];
  }
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
