// kind: precision_cut
// call: mean_bf16_rows
// dies: wrong_value
// gate: values
// why: adds up in the type of the input
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const kf_bf16* x = self + int64_t(blockIdx.x) * n;
  kf_bf16 part = {0};
  for (int i = threadIdx.x; i < n; i += 256) part = kf_to<kf_bf16>(kf_of(part) + kf_of(x[i]));
  const float sum = kf_block_fold<256>(kf_of(part), kf_sum_of());
  if (threadIdx.x == 0) out0[blockIdx.x] = kf_to<kf_bf16>(sum / n);
}
