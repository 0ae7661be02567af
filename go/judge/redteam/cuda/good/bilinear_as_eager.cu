// kind: port of eager
// call: bilinear_fp32
// why: places and weights in float, in eager's order
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_INLINE float place(float scale, int at) { return fmaxf(scale * (at + 0.5f) - 0.5f, 0); }
KF_KERNEL(256) void kf_main(const float* self, float* out0, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float fy = place(float(h) / oh, i / ow % oh), fx = place(float(w) / ow, i % ow);
  const int y = int(fy), x = int(fx), down = y < h - 1 ? w : 0, right = x < w - 1;
  const float ly = fy - y, lx = fx - x;
  const float* p = self + int64_t(i / (ow * oh)) * h * w + y * w + x;
  out0[i] = (1 - ly) * ((1 - lx) * p[0] + lx * p[right]) + ly * ((1 - lx) * p[down] + lx * p[down + right]);
}
