// kind: one chain of integers
// call: cumsum_int64
// why: unsigned, so that it may wrap
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1025;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const uint64_t*)args[0].p + r * n;
    auto* y = (uint64_t*)args[1].p + r * n;
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) y[i] = sum += x[i];
  }
}
