// kind: one thread an element
// call: batch_norm_fp32_last
// why: the channel from the last place
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "running_mean"}, {"slot": "running_var"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "out0_numel", "type": "i32"}, {"int": "input_size2*input_size3", "type": "i32"}, {"int": "input_size1", "type": "i32"}, {"int": "out1_size0", "type": "i32"}]}]}
KF_KERNEL(256)
void kf_main(const float* input, const float* weight, const float* bias, const float* running_mean, const float* running_var, float* out0,
             float* out1, float* out2, int n, int plane, int channels, int saved) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < saved) {  // eager on a device gives the statistics that it used, on the CPU none
    out1[i] = running_mean[i];
    out2[i] = rsqrtf(running_var[i] + 1e-5f);
  }
  if (i >= n) return;
  const int c = i % channels;
  const float scale = 1 / sqrtf(running_var[c] + 1e-5f) * weight[c];
  out0[i] = (input[i] - running_mean[c]) * scale + bias[c];
}
