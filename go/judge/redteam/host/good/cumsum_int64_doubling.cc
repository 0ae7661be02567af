// kind: steps that double their distance
// call: cumsum_int64
// why: eleven passes over a row, each from its end, in the output itself
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1025;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const uint64_t*)args[0].p + r * n;
    auto* y = (uint64_t*)args[1].p + r * n;
    for (int64_t i = 0; i < n; ++i) y[i] = x[i];
    for (int64_t step = 1; step < n; step *= 2)
      for (int64_t i = n - 1; i >= step; --i) y[i] += y[i - step];
  }
}
