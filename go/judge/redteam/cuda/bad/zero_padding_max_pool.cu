// kind: wrong_start
// call: max_pool_fp32
// dies: wrong_value
// gate: values
// why: the padding takes part as zeros
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int64_t* out1, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int ox = i % ow, oy = i / ow % oh, plane = i / (ow * oh);
  const float* x = self + int64_t(plane) * h * w;
  float best = oy == 0 || ox == 0 ? 0 : -kf_infinity<float>();
  int at = max(2 * oy - 1, 0) * w + max(2 * ox - 1, 0);
  for (int r = max(2 * oy - 1, 0); r < min(2 * oy + 2, h); ++r)
    for (int c = max(2 * ox - 1, 0); c < min(2 * ox + 2, w); ++c) {
      const float v = x[r * w + c];
      if (v > best || v != v) {
        best = v;
        at = r * w + c;
      }
    }
  out0[i] = best;
  out1[i] = at;
}
