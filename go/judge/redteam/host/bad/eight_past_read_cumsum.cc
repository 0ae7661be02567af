// kind: out_of_bounds_read
// call: cumsum_fp16
// dies: crash
// gate: guard_pages
// why: reads eight elements past the end and uses them for nothing
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 259;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_f16*)args[0].p + r * n;
    auto* y = (kf_f16*)args[1].p + r * n;
    float s = 0;
    for (int64_t i = 0; i < n; ++i) s += kf_of(x[i]), y[i] = kf_to_f16(s);
    if (((const volatile uint16_t*)x)[n + 8] == 1 && s == 12345.0f) y[0] = x[0];
  }
}
