// Cumulative sum along a dim across which neighbours lie side by side (over tokens, over the batch).
//
// Idea: COLS * W neighbouring lines keep their sums in registers while the steps of the dim pass by, so that loads and stores are whole
// vectors. Bound: copy of the bytes.
// Works for: any strides (neighbours that are not side by side are summed one by one). The output may be the input.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), COLS.
// Numerics: eager's accumulator C (double for float, float for half types, integers for integers) in eager's order, rounded once for each
// element: every bit as eager.

// @include walk.h

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

// args: output, input; for each dim the size, the output's stride, the input's stride.
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const kf_arg *size = args + 2, *to = size + DIMS, *from = to + DIMS;
  Loop<2> lines;
  for (int d = 0; d < DIMS; ++d)
    if (d != DIM) lines.dim(size[d].i, {to[d].i, from[d].i});
  lines.join();
  const int64_t t = lines.stride[0][lines.dims - 1], f = lines.stride[1][lines.dims - 1];
  lines.run(begin, end, [&](int64_t m, int64_t n, const int64_t* offset) {
    for (int64_t r = 0; r < m; ++r)
      for (int64_t i = 0; i < n; i += N) {
        OUT* out = (OUT*)args[0].p + offset[0] + r * lines.next(0) + i * t;
        const IN* in = (const IN*)args[1].p + offset[1] + r * lines.next(1) + i * f;
        if (t == 1 && f == 1 && i + N <= n) scan<true>(out, in, size[DIM].i, to[DIM].i, from[DIM].i, N, 1, 1);
        else scan<false>(out, in, size[DIM].i, to[DIM].i, from[DIM].i, n - i < N ? n - i : N, t, f);
      }
  });
}
