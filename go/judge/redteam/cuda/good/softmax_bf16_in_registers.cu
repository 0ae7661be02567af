// kind: warp and registers
// call: softmax_bf16
// why: a row a warp, nine elements a lane, the device's own exponential
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 4)", "1", "1"], "block": ["128", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(128) void kf_main(const kf_bf16* self, kf_bf16* out0, int n, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const kf_bf16* x = self + int64_t(row) * n;
  float v[9], top = -kf_infinity<float>();
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    v[k] = lane + 32 * k < n ? kf_of(x[lane + 32 * k]) : -kf_infinity<float>();
    top = kf_max(top, v[k]);
  }
  top = kf_warp_fold(top, kf_max_of());
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    v[k] = kf_fast_exp(v[k] - top);
    sum += lane + 32 * k < n ? v[k] : 0;
  }
  sum = kf_warp_fold(sum, kf_sum_of());
#pragma unroll
  for (int k = 0; k < 9; ++k)
    if (lane + 32 * k < n) out0[int64_t(row) * n + lane + 32 * k] = kf_to<kf_bf16>(v[k] / sum);
}
