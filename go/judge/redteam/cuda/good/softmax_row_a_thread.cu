// kind: one thread a row, in order
// call: softmax_fp16_short
// why: rows are short: nobody waits for anybody
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 64)", "1", "1"], "block": ["64", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(64) void kf_main(const kf_f16* self, kf_f16* out0, int n, int rows) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= rows) return;
  const kf_f16* x = self + row * n;
  float top = kf_of(x[0]), sum = 0;
  for (int i = 1; i < n; ++i) top = kf_max(top, kf_of(x[i]));
  for (int i = 0; i < n; ++i) sum += expf(kf_of(x[i]) - top);
  for (int i = 0; i < n; ++i) out0[row * n + i] = kf_to<kf_f16>(expf(kf_of(x[i]) - top) / sum);
}
