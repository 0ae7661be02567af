// kind: wrong_tie
// call: topk_fp32_ties
// dies: wrong_value
// gate: values
// why: each value is less than the one before: of equal elements it takes one
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}]}]}
KF_INLINE bool better(float a, float b) { return a > b || (a != a && b == b); }
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 77, k = 8;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const float*)args[0].p + r * n;
    auto* v = (float*)args[1].p + r * k;
    auto* at = (int64_t*)args[2].p + r * k;
    for (int64_t j = 0; j < k; ++j) {
      int64_t best = -1;
      for (int64_t i = 0; i < n; ++i)
        if ((j == 0 || better(v[j - 1], x[i])) && (best < 0 || better(x[i], x[best]))) best = i;
      if (best < 0) best = j;
      v[j] = x[best];
      at[j] = best;
    }
  }
}
