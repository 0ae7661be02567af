// kind: channels last: a table of scales, then rows of channels
// call: batch_norm_fp32_last
// why: two kernels and a workspace
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "input_size1 * 8", "zeroed": false}], "kernels": [{"entry": "kf_main", "work": "input_size1", "grain": "64", "args": [{"slot": "weight"}, {"slot": "bias"}, {"slot": "running_mean"}, {"slot": "running_var"}, {"slot": "ws0"}]}, {"entry": "kf_rows", "work": "input_numel / input_size1", "grain": "64", "args": [{"slot": "input"}, {"slot": "out0"}, {"slot": "ws0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *w = (const float*)args[0].p, *b = (const float*)args[1].p, *m = (const float*)args[2].p, *v = (const float*)args[3].p;
  auto* kept = (float*)args[4].p;
  for (int64_t c = begin; c < end; ++c) {
    kept[c] = w[c] / __builtin_sqrtf(v[c] + 1e-5f);
    kept[19 + c] = b[c] - m[c] * kept[c];
  }
}
KF_ENTRY void kf_rows(int64_t begin, int64_t end, const kf_arg* args) {
  auto *x = (const float*)args[0].p, *kept = (const float*)args[2].p;
  auto* y = (float*)args[1].p;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < 19; ++c) y[r * 19 + c] = x[r * 19 + c] * kept[c] + kept[19 + c];
}
