// kind: negative_zero
// call: copy_fp32_transposed
// dies: wrong_value
// gate: special
// why: adds 0 on the way, which turns -0 into 0
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "src"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float zero = kf_cast_bits<float>(uint32_t(end - end));
    y[i] = x[i % 259 * 131 + i / 259] + zero;
  }
}
