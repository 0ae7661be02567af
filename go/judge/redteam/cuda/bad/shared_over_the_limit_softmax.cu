// kind: shared_over_request
// call: softmax_fp32
// dies: launch_error
// gate: launch
// why: one kilobyte more than a block may have: where launches are not checked the output is what was there
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "smem_optin + 1024", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  extern __shared__ float staged[];
  const float* x = self + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  float top = -kf_infinity<float>();
  for (int i = threadIdx.x; i < n; i += 256) top = kf_max(top, x[i]);
  top = kf_block_fold<256>(top, kf_max_of());
  for (int i = threadIdx.x; i < n; i += 256) staged[i] = x[i];
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(x[i] - top);
  sum = kf_block_fold<256>(sum, kf_sum_of());
  for (int i = threadIdx.x; i < n; i += 256) y[i] = expf(staged[i] - top) / sum;
}
