// kind: Kahan's compensation
// call: sum_fp32_rows
// why: each thread carries what its additions lost; a sum that is not finite keeps no such rest
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  float sum = 0, plain = 0, lost = 0;
  for (int i = threadIdx.x; i < n; i += 256) {
    const float term = __fsub_rn(x[i], lost), next = __fadd_rn(sum, term);
    lost = __fsub_rn(__fsub_rn(next, sum), term);
    sum = next;
    plain += x[i];
  }
  sum = kf_block_fold<256>(sum, kf_sum_of());
  plain = kf_block_fold<256>(plain, kf_sum_of());
  if (threadIdx.x == 0) out0[blockIdx.x] = fabsf(plain) < kf_infinity<float>() ? sum : plain;
}
