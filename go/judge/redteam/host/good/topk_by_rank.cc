// kind: places by counting
// call: topk_bf16_smallest
// why: an element's place is how many are better; those that have one below k are written
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}]}]}
KF_INLINE bool better(float a, float b) { return a < b || (a == a && b != b); }
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 259, k = 5;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* v = (kf_bf16*)args[1].p + r * k;
    auto* at = (int64_t*)args[2].p + r * k;
    for (int64_t i = 0; i < n; ++i) {
      int64_t place = 0;
      for (int64_t j = 0; j < n; ++j) place += better(kf_of(x[j]), kf_of(x[i])) || (j < i && !better(kf_of(x[i]), kf_of(x[j])));
      if (place < k) v[place] = x[i], at[place] = i;
    }
  }
}
