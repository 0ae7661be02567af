// kind: changes_input
// call: batch_norm_fp32
// dies: crash
// gate: inputs
// why: folds the deviation into the weight, in place
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "input_numel", "grain": "100000", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "running_mean"}, {"slot": "running_var"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto *w = (float*)args[1].p, *b = (float*)args[2].p, *m = (float*)args[3].p, *v = (float*)args[4].p;
  auto* y = (float*)args[5].p;
  for (int c = 0; c < 19; ++c) w[c] = w[c] / __builtin_sqrtf(v[c] + 1e-5f), v[c] = 1 - 1e-5f;
  for (int64_t i = begin; i < end; ++i) {
    int64_t c = i / 169 % 19;
    y[i] = (x[i] - m[c]) * w[c] + b[c];
  }
}
