// kind: the mean subtracted first
// call: batch_norm_fp32
// why: one element at a time
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "input_numel", "grain": "512", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "running_mean"}, {"slot": "running_var"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto *w = (const float*)args[1].p, *b = (const float*)args[2].p, *m = (const float*)args[3].p, *v = (const float*)args[4].p;
  auto* y = (float*)args[5].p;
  for (int64_t i = begin; i < end; ++i) {
    int64_t c = i / 169 % 19;
    y[i] = (x[i] - m[c]) * (w[c] / __builtin_sqrtf(v[c] + 1e-5f)) + b[c];
  }
}
