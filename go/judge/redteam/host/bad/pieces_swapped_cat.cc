// kind: wrong_order
// call: cat_fp32_channels
// dies: wrong_value
// gate: values
// why: puts the last piece first
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "tensors_0"}, {"slot": "tensors_1"}, {"slot": "tensors_2"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t plane = 17 * 13, first = 1, second = 5, third = 7, all = 13;
  auto *a = (const float*)args[2].p, *b = (const float*)args[0].p, *c = (const float*)args[1].p;
  auto* y = (float*)args[3].p;
  for (int64_t i = begin; i < end; ++i) {
    int64_t n = i / (all * plane), channel = i / plane % all, at = i % plane;
    if (channel < first) y[i] = a[(n * first + channel) * plane + at];
    else if (channel < first + second) y[i] = b[(n * second + channel - first) * plane + at];
    else y[i] = c[(n * third + channel - first - second) * plane + at];
  }
}
