// kind: warp shuffles
// call: mean_bf16_rows
// why: a row a warp
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 4)", "1", "1"], "block": ["128", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(128) void kf_main(const kf_bf16* self, kf_bf16* out0, int n, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= rows) return;
  float sum = 0;
  for (int i = threadIdx.x % 32; i < n; i += 32) sum += kf_of(self[int64_t(row) * n + i]);
  sum = kf_warp_fold(sum, kf_sum_of());
  if (threadIdx.x % 32 == 0) out0[row] = kf_to<kf_bf16>(sum / n);
}
