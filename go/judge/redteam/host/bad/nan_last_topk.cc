// kind: nan_dropped
// call: topk_fp32
// dies: wrong_value
// gate: special
// why: compares with >, which a NaN never wins
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 77, k = 8;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* v = (float*)args[1].p + r * k;
    auto* at = (int64_t*)args[2].p + r * k;
    bool used[n] = {};
    for (int64_t j = 0; j < k; ++j) {
      int64_t best = -1;
      for (int64_t i = 0; i < n; ++i)
        if (!used[i] && (best < 0 || x[i] > x[best] || (x[best] != x[best] && x[i] == x[i]))) best = i;
      used[best] = true;
      v[j] = x[best];
      at[j] = best;
    }
  }
}
