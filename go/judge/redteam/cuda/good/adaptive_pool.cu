// kind: one thread a window
// call: adaptive_pool_fp32
// why: windows from the floor to the ceiling of their share
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int oy = i / ow % oh, ox = i % ow;
  const int top = oy * h / oh, bottom = ((oy + 1) * h + oh - 1) / oh, left = ox * w / ow, right = ((ox + 1) * w + ow - 1) / ow;
  const float* x = self + int64_t(i / (ow * oh)) * h * w;
  float sum = 0;
  for (int r = top; r < bottom; ++r)
    for (int c = left; c < right; ++c) sum += x[r * w + c];
  out0[i] = sum / (bottom - top) / (right - left);
}
