// kind: row a block
// call: avg_pool_fp32_border
// why: a block has one row of windows; sums of columns first
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0*out0_size1*out0_size2", "1", "1"], "block": ["32", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}]}]}
KF_KERNEL(32) void kf_main(const float* self, float* out0, int h, int w, int oh, int ow) {
  const int oy = blockIdx.x % oh, top = max(2 * oy - 1, 0), bottom = min(2 * oy + 2, h);
  const float* x = self + int64_t(blockIdx.x / oh) * h * w;
  for (int ox = threadIdx.x; ox < ow; ox += 32) {
    const int left = max(2 * ox - 1, 0), right = min(2 * ox + 2, w);
    float sum = 0;
    for (int c = left; c < right; ++c) {
      float column = 0;
      for (int r = top; r < bottom; ++r) column += x[r * w + c];
      sum += column;
    }
    out0[blockIdx.x * ow + ox] = sum / ((bottom - top) * (right - left));
  }
}
