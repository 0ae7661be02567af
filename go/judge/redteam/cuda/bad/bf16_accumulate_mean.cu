// kind: precision_cut
// call: mean_bf16_rows
// dies: wrong_value
// gate: values
// why: one thread a row adds up in the type of the input: the sum stands still at 256
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 32)", "1", "1"], "block": ["32", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(32) void kf_main(const kf_bf16* self, kf_bf16* out0, int n, int rows) {
  const int row = blockIdx.x * 32 + threadIdx.x;
  if (row >= rows) return;
  kf_bf16 sum = {0};
  for (int i = 0; i < n; ++i) sum = kf_to<kf_bf16>(kf_of(sum) + kf_of(self[int64_t(row) * n + i]));
  out0[row] = kf_to<kf_bf16>(kf_of(sum) / n);
}
