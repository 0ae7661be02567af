// kind: wrong_divisor
// call: avg_pool_fp32_border
// dies: wrong_value
// gate: values
// why: divides by nine where the window overlaps the border
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int ox = i % ow, oy = i / ow % oh, plane = i / (ow * oh);
  const float* x = self + int64_t(plane) * h * w;
  const int top = max(2 * oy - 1, 0), bottom = min(2 * oy + 2, h), left = max(2 * ox - 1, 0), right = min(2 * ox + 2, w);
  float sum = 0;
  for (int r = top; r < bottom; ++r)
    for (int c = left; c < right; ++c) sum += x[r * w + c];
  out0[i] = sum / 9;
}
