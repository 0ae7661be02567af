// kind: nan_leaks
// call: where_fp32_odd
// dies: wrong_value
// gate: special only
// why: multiplies with the mask, so that what was not chosen leaks if it is not finite
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "condition"}, {"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* c = (const uint8_t*)args[0].p;
  auto *a = (const float*)args[1].p, *b = (const float*)args[2].p;
  auto* y = (float*)args[3].p;
  for (int64_t i = begin; i < end; ++i) y[i] = a[i] * c[i] + b[i] * (1 - c[i]);
}
