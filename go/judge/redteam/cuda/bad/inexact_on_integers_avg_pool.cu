// kind: precision_cut
// call: avg_pool_fp32_window
// dies: wrong_value
// gate: exact
// why: each term is divided by three and the sum multiplied again: small integers do not come out as themselves
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float* x = self + int64_t(i / (ow * oh)) * h * w + i / ow % oh * 2 * w + i % ow * 2;
  out0[i] = (x[0] / 3 + x[1] / 3 + x[w] / 3 + x[w + 1] / 3) * 0.75f;
}
