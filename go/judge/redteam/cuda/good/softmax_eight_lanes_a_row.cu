// kind: part of a warp a row
// call: softmax_fp16_short
// why: four rows a warp; lanes past the last row compute it again and write nothing
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 32)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}, {"int": "self_size0", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n, int rows) {
  const int row = blockIdx.x * 32 + threadIdx.x / 8, lane = threadIdx.x % 8;
  const kf_f16* x = self + min(row, rows - 1) * n;
  float top = -kf_infinity<float>(), sum = 0;
  for (int i = lane; i < n; i += 8) top = kf_max(top, kf_of(x[i]));
  top = kf_warp_fold<8>(top, kf_max_of());
  for (int i = lane; i < n; i += 8) sum += expf(kf_of(x[i]) - top);
  sum = kf_warp_fold<8>(sum, kf_sum_of());
  if (row < rows)
    for (int i = lane; i < n; i += 8) out0[row * n + i] = kf_to<kf_f16>(expf(kf_of(x[i]) - top) / sum);
}
