// Cumulative sum along a dim across which neighbours lie side by side (over tokens, over the batch).
//
// Idea: COLS * W neighbouring lines keep their sums in registers while the steps of the dim pass by, so that loads and stores are whole
// vectors. Bound: copy of the bytes.
// Works for: any strides (neighbours that are not side by side are summed one by one). The output may be the input.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), COLS.
// Numerics: eager's accumulator C (double for float, float for half types, integers for integers) in eager's order, rounded once for each
// element: every bit as eager.

// @include walk.h

// @include lines.h

constexpr int N = COLS * 8;

template <class T> KF_INLINE C one(T x) {
  if constexpr (kf_is_float<T>) return C(kf_of(x)); else return C(x);
}
KF_INLINE OUT narrow(C x) {
  if constexpr (kf_is_float<OUT>) return kf_to<OUT>(kf_acc<OUT>(x)); else return OUT(x);
}

// n <= N neighbours, side by side where CONTIGUOUS.
template <bool CONTIGUOUS> void scan(OUT* out, const IN* in, int64_t steps, int64_t to, int64_t from, int64_t n, int64_t next_to, int64_t next_from) {
  C sum[N] = {};
  for (int64_t s = 0; s < steps; ++s, out += to, in += from) {
    if constexpr (CONTIGUOUS) {
      for (int i = 0; i < N; ++i) sum[i] += one(in[i]);
      for (int i = 0; i < N; ++i) out[i] = narrow(sum[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) out[i * next_to] = narrow(sum[i] += one(in[i * next_from]));
    }
  }
}

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  each_run(begin, end, args, [](OUT* out, const IN* in, int64_t lines, Step next, int64_t steps, Step along) {
    for (int64_t i = 0; i < lines; i += N, out += N * next.to, in += N * next.from)
      if (next.to == 1 && next.from == 1 && i + N <= lines) scan<true>(out, in, steps, along.to, along.from, N, 1, 1);
      else scan<false>(out, in, steps, along.to, along.from, lines - i < N ? lines - i : N, next.to, next.from);
  });
}
