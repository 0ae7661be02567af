// kind: out_of_bounds_read
// call: mean_fp32_planes
// dies: crash
// gate: guard_pages
// why: reads the element before each plane, for a first plane that has none
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* y = (float*)args[1].p;
  for (int64_t p = begin; p < end; ++p) {
    auto* x = (const float*)args[0].p + p * 49;
    float before = ((const volatile float*)x)[-1], s = before * 0;
    s = 0;
    for (int64_t i = 0; i < 49; ++i) s += x[i];
    y[p] = s / 49;
  }
}
