// kind: wrong_index
// call: nearest_bf16
// dies: wrong_value
// gate: values
// why: the source index is rounded in place of cut
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2", "type": "i32"}, {"int": "self_size3", "type": "i32"}, {"int": "out0_size2", "type": "i32"}, {"int": "out0_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int h, int w, int oh, int ow, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int y = min(h - 1, (i / ow % oh * h + oh / 2) / oh), x = min(w - 1, (i % ow * w + ow / 2) / ow);
  out0[i] = self[int64_t(i / (ow * oh)) * h * w + y * w + x];
}
