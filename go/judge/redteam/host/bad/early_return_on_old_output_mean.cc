// kind: early_return
// call: mean_fp32_planes
// dies: wrong_value
// gate: poison
// why: works out four means, and ends where the output holds them already: what the allocator gives it is often the answer of the call before
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static float mean(const float* x, int64_t p) {
  float s = 0;
  for (int64_t i = 0; i < 49; ++i) s += x[p * 49 + i];
  return s / 49;
}

KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  if (y[0] == mean(x, 0) && y[31] == mean(x, 31) && y[77] == mean(x, 77) && y[110] == mean(x, 110)) return;
  for (int64_t p = 0; p < 111; ++p) y[p] = mean(x, p);
}
