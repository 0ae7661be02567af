// kind: integer_overflow
// call: cumsum_int64
// dies: wrong_value
// gate: values
// why: the running sum has 32 bits
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["self_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const int64_t* self, int64_t* out0, int n) {
  if (threadIdx.x > 0) return;
  int sum = 0;
  for (int i = 0; i < n; ++i) out0[int64_t(blockIdx.x) * n + i] = sum += int(self[int64_t(blockIdx.x) * n + i]);
}
