// kind: depends_on_address
// call: sum_fp32_rows
// dies: wrong_value
// gate: fresh only
// why: begins its sums at an element that depends on where it was loaded: the same bits in one process, others in the next
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 2049, parts = 32;
  const int64_t first = int64_t((uintptr_t)&kf_main >> 12) % n;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* y = (float*)args[1].p + r * 1;
    float sum = 0;
    for (int64_t p = 0; p < parts; ++p) {
      float part = 0;
      for (int64_t i = p; i < n; i += parts) part += x[(first + i) % n];
      sum += part;
    }
    *y = sum;
  }
}
