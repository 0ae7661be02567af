// kind: two kernels
// call: sum_fp32_all
// why: 64 blocks, whose parts one block joins
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "256", "zeroed": false}], "kernels": [{"entry": "kf_main", "grid": ["64", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "ws0"}, {"int": "self_numel", "type": "i32"}]}, {"entry": "kf_join", "grid": ["1", "1", "1"], "block": ["64", "1", "1"], "smem": "0", "args": [{"slot": "ws0"}, {"slot": "out0"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* ws0, int n) {
  float sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 64 * 256) sum += self[i];
  sum = kf_block_fold<256>(sum, kf_sum_of());
  if (threadIdx.x == 0) ws0[blockIdx.x] = sum;
}
KF_KERNEL(64) void kf_join(const float* ws0, float* out0) {
  const float sum = kf_block_fold<64>(ws0[threadIdx.x], kf_sum_of());
  if (threadIdx.x == 0) out0[0] = sum;
}
