// kind: all_inf_row
// call: softmax_bf16
// dies: wrong_value
// gate: special
// why: the maximum starts at -1e4: a row that a mask has set to -1e9 becomes 0 / 0
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const kf_bf16* x = self + int64_t(blockIdx.x) * n;
  kf_bf16* y = out0 + int64_t(blockIdx.x) * n;
  float top = -1e4f;
  for (int i = threadIdx.x; i < n; i += 256) top = kf_max(top, kf_of(x[i]));
  top = kf_block_fold<256>(top, kf_max_of());
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(kf_of(x[i]) - top);
  sum = kf_block_fold<256>(sum, kf_sum_of());
  for (int i = threadIdx.x; i < n; i += 256) y[i] = kf_to<kf_bf16>(expf(kf_of(x[i]) - top) / sum);
}
