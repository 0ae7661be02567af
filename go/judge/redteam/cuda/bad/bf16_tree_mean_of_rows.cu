// kind: bf16_accumulate
// call: mean_bf16_rows
// dies: wrong_value
// gate: exact
// why: a tree over shared memory whose every level is rounded to bfloat16
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  __shared__ kf_bf16 part[256];
  const kf_bf16* x = self + int64_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum = kf_of(kf_to<kf_bf16>(sum + kf_of(x[i])));
  part[threadIdx.x] = kf_to<kf_bf16>(sum);
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] = kf_to<kf_bf16>(kf_of(part[threadIdx.x]) + kf_of(part[threadIdx.x + half]));
    __syncthreads();
  }
  if (threadIdx.x == 0) out0[blockIdx.x] = kf_to<kf_bf16>(kf_of(part[0]) / n);
}
