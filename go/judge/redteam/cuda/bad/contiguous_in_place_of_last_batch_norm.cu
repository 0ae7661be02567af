// kind: stride_ignored
// call: batch_norm_fp32_last
// dies: wrong_value
// gate: values
// why: takes the channel as if channels were not last in memory
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "running_mean"}, {"slot": "running_var"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "out0_numel", "type": "i32"}, {"int": "input_size2*input_size3", "type": "i32"}, {"int": "input_size1", "type": "i32"}, {"int": "out1_size0", "type": "i32"}]}]}
KF_KERNEL(256)
void kf_main(const float* input, const float* weight, const float* bias, const float* mean, const float* var, float* out0, float* out1,
             float* out2, int n, int plane, int channels, int saved) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < saved) {
    out1[i] = mean[i];
    out2[i] = rsqrtf(var[i] + 1e-5f);
  }
  if (i >= n) return;
  const int c = i / plane % channels;
  out0[i] = (input[i] - mean[c]) / sqrtf(var[c] + 1e-5f) * weight[c] + bias[c];
}
