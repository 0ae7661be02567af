// kind: uninitialised_register
// call: mean_bf16_rows
// dies: wrong_value
// gate: values
// why: of eight parts in local memory four are written and all are added up
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const kf_bf16* x = self + int64_t(blockIdx.x) * n;
  float part[8];
  for (int k = 0; k < 4; ++k) {
    part[k] = 0;
    for (int i = threadIdx.x + k * 256; i < n; i += 1024) part[k] += kf_of(x[i]);
  }
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += part[k];
  sum = kf_block_fold<256>(sum, kf_sum_of());
  if (threadIdx.x == 0) out0[blockIdx.x] = kf_to<kf_bf16>(sum / n);
}
