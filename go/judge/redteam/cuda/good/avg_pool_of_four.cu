// kind: one thread a window
// call: avg_pool_fp32_window
// why: a quarter of four
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float* x = self + int64_t(i / (ow * oh)) * h * w + i / ow % oh * 2 * w + i % ow * 2;
  out0[i] = (x[0] + x[1] + x[w] + x[w + 1]) * 0.25f;
}
