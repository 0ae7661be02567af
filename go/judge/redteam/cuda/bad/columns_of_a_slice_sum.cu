// kind: partial_reduction
// call: sum_fp16_columns
// dies: wrong_value
// gate: values
// why: adds up the first thousand rows, the rest is small beside them
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size1, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int columns) {
  const int c = blockIdx.x * 256 + threadIdx.x;
  if (c >= columns) return;
  float sum = 0;
  for (int r = 0; r < 1000; ++r) sum += kf_of(self[r * columns + c]);
  out0[c] = kf_to<kf_f16>(sum);
}
