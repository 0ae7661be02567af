// kind: ordered integers
// call: amax_fp32_rows
// why: numbers as integers of the same order, NaN above all of them, joined by an atomic maximum in shared memory
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_INLINE int key(float x) {
  if (x != x) return 0x7fffffff;
  const int bits = __float_as_int(x);
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  __shared__ int most;
  if (threadIdx.x == 0) most = key(-kf_infinity<float>());
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 256) atomicMax(&most, key(x[i]));
  __syncthreads();
  if (threadIdx.x == 0) out0[blockIdx.x] = __int_as_float(most >= 0 ? most : most ^ 0x7fffffff);
}
