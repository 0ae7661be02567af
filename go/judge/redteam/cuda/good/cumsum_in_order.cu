// kind: one thread a row, in order
// call: cumsum_int64
// why: a row a thread
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 32)", "1", "1"], "block": ["32", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(32) void kf_main(const int64_t* self, int64_t* out0, int n, int rows) {
  const int64_t row = blockIdx.x * 32 + threadIdx.x;
  if (row >= rows) return;
  int64_t sum = 0;
  for (int i = 0; i < n; ++i) out0[row * n + i] = sum += self[row * n + i];
}
