// kind: strides from the spec
// call: copy_fp16_heads
// why: an index from four strides
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_numel", "grain": "4096", "args": [{"slot": "src"}, {"slot": "out0"}, {"int": "src_stride0"}, {"int": "src_stride1"}, {"int": "src_stride2"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const uint16_t*)args[0].p;
  auto* y = (uint16_t*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    int64_t n = i / 10395, h = i / 2079 % 5, t = i / 63 % 33, d = i % 63;
    y[i] = x[n * args[2].i + h * args[3].i + t * args[4].i + d];
  }
}
