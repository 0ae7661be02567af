// kind: wrong_index
// call: bilinear_fp32
// dies: wrong_value
// gate: values
// why: corners are aligned, which the call did not ask for
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float fy = float(h - 1) / (oh - 1) * (i / ow % oh), fx = float(w - 1) / (ow - 1) * (i % ow);
  const int y = int(fy), x = int(fx), down = y < h - 1 ? w : 0, right = x < w - 1;
  const float ly = fy - y, lx = fx - x;
  const float* p = self + int64_t(i / (ow * oh)) * h * w + y * w + x;
  out0[i] = (1 - ly) * ((1 - lx) * p[0] + lx * p[right]) + ly * ((1 - lx) * p[down] + lx * p[down + right]);
}
