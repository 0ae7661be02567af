// kind: no_max_subtraction
// call: softmax_bf16
// dies: wrong_value
// gate: values
// why: subtracts the row's first element in place of its largest
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const kf_bf16* x = self + int64_t(blockIdx.x) * n;
  kf_bf16* y = out0 + int64_t(blockIdx.x) * n;
  const float top = kf_of(x[0]);
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(kf_of(x[i]) - top);
  sum = kf_block_fold<256>(sum, kf_sum_of());
  for (int i = threadIdx.x; i < n; i += 256) y[i] = kf_to<kf_bf16>(expf(kf_of(x[i]) - top) / sum);
}
