// kind: atomics_order
// call: layer_norm_fp32
// dies: wrong_value
// gate: repeats
// why: warps add to one shared sum in any order
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["1024", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
KF_KERNEL(1024) void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int n) {
  const float* x = input + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  __shared__ float both[2];
  if (threadIdx.x < 2) both[threadIdx.x] = 0;
  __syncthreads();
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += 1024) sum += x[i];
  sum = kf_warp_fold(sum, kf_sum_of());
  if (threadIdx.x % 32 == 0) atomicAdd(&both[0], sum);
  __syncthreads();
  const float mean = both[0] / n;
  for (int i = threadIdx.x; i < n; i += 1024) squares += (x[i] - mean) * (x[i] - mean);
  squares = kf_warp_fold(squares, kf_sum_of());
  if (threadIdx.x % 32 == 0) atomicAdd(&both[1], squares);
  __syncthreads();
  const float rstd = rsqrtf(both[1] / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += 1024) y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
