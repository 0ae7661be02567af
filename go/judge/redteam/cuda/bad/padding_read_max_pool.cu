// kind: out_of_bounds
// call: max_pool_fp32
// dies: crash, wrong_value
// gate: guard_pages
// why: windows at the border read what lies around the image
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int64_t* out1, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int ox = i % ow, oy = i / ow % oh, plane = i / (ow * oh);
  const float* x = self + int64_t(plane) * h * w;
  float best = -kf_infinity<float>();
  int at = 2 * oy - 1 * w + 2 * ox - 1;
  for (int r = 2 * oy - 1; r < 2 * oy + 2; ++r)
    for (int c = 2 * ox - 1; c < 2 * ox + 2; ++c) {
      const float v = x[r * w + c];
      if (v > best || v != v) {
        best = v;
        at = r * w + c;
      }
    }
  out0[i] = best;
  out1[i] = at;
}
