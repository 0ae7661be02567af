// Reduce columns: sum, mean or maximum where the kept elements lie side by side (a mean over tokens, over H and W in NHWC, over the batch).
//
// Idea: COLS hardware vectors of neighbouring outputs stay in registers while the reduced elements pass by, so that every load is a whole
// vector. With PARTS > 1 the reduced elements are folded in that many parts, whose results a second kernel joins: for few outputs of many
// elements. Bound: one read of the input.
// Works for: any dims and strides (kept elements that are not side by side are read one by one). PARTS is fixed, so that a result does not
// depend on the number of threads.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), COLS, KF_LANES, PARTS.
// Numerics: float arithmetic (double for double), errors that do not grow with the count (fold.h); a maximum with a NaN is NaN.

// @include walk.h
// @include fold.h

// Adds one row of n <= COLS * W neighbouring elements.
template <bool FULL> KF_INLINE void row(Fold (&f)[COLS], const IN* p, int64_t n, int64_t step) {
  for (int c = 0; c < COLS; ++c) {
    if constexpr (FULL) {
      f[c].add(kf_load(p + c * W));
    } else if (c * W < n) {
      const int64_t some = n - c * W < W ? n - c * W : W;
      V v = {};
      if (step == 1) v = some == W ? kf_load(p + c * W) : kf_load_n(p + c * W, some);
      else for (int64_t j = 0; j < some; ++j) v[j] = kf_of(p[(c * W + j) * step]);
      f[c].add(counted(v, some));
    }
  }
}
// Folds the part [begin, end) of the reduced elements for n neighbouring outputs and hands vector by vector to `put`. Rows that follow
// each other in memory are taken `times` at a time, as one row of times * n elements, and added up at the end.
template <bool FULL, class F>
KF_INLINE void folded(const IN* in, const Loop<1>& reduced, int64_t begin, int64_t end, int64_t n, int64_t step, int64_t times, F put) {
  Fold f[COLS];
  int64_t since = 0;
  const int64_t next = reduced.stride[0][reduced.dims - 1];
  const bool whole = FULL || (step == 1 && times * n == COLS * W);
  reduced.run(begin, end, [&](int64_t rows, int64_t length, const int64_t* offset) {
    for (int64_t r = 0; r < rows; ++r) {
      const IN* p = in + offset[0] + r * reduced.next(0);
      for (int64_t i = 0; i < length; i += times, p += times * next) {
        if (whole && length - i >= times) row<true>(f, p, COLS * W, step);
        else row<false>(f, p, (length - i < times ? length - i : times) * n, step);
        if (++since == BLOCK) {
          for (int c = 0; c < COLS; ++c) f[c].flush();
          since = 0;
        }
      }
    }
  });
  if (times == 1) {
    for (int c = 0; c * W < n; ++c) put(c * W, f[c].value(), n - c * W < W ? n - c * W : W);
    return;
  }
  C lanes[(COLS + 1) * W];
  for (int c = 0; c < COLS; ++c) kf_store(lanes + c * W, f[c].value());
  for (int64_t k = 1; k < times; ++k)
    for (int64_t j = 0; j < n; ++j) lanes[j] = C(Fold::join(lanes[j], lanes[k * n + j]));
  for (int64_t j = 0; j < n; j += W) put(j, kf_load(lanes + j), n - j < W ? n - j : W);
}

// One vector of outputs, `to` apart.
KF_INLINE void write(OUT* out, V v, int64_t n, int64_t to) {
  if (to == 1) return n == W ? kf_store(out, v) : kf_store_n(out, v, n);
  for (int64_t j = 0; j < n; ++j) out[j * to] = kf_to<OUT>(v[j]);
}

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const Shape s = shape_of(args);
  const int64_t step = s.kept.stride[0][s.kept.dims - 1], to = s.kept.stride[1][s.kept.dims - 1];
  for (int64_t part = begin / s.outputs; begin < end; ++part) {
    const int64_t stop = (part + 1) * s.outputs < end ? (part + 1) * s.outputs : end;
    const int64_t low = s.count * part / PARTS, high = s.count * (part + 1) / PARTS;
    int64_t at = begin;
    s.kept.run(begin - part * s.outputs, stop - part * s.outputs, [&](int64_t m, int64_t n, const int64_t* offset) {
      for (int64_t r = 0; r < m; ++r) {
        const IN* in = (const IN*)args[1].p + offset[0] + r * s.kept.next(0);
        OUT* out = (OUT*)args[0].p + offset[1] + r * s.kept.next(1);
        // Narrow rows side by side in memory: several at a time.
        const int64_t times = step == 1 && s.reduced.stride[0][s.reduced.dims - 1] == n && 2 * n <= COLS * W ? COLS * W / n : 1;
        for (int64_t i = 0; i < n; i += COLS * W) {
          auto put = [&](int64_t j, V v, int64_t some) __attribute__((always_inline)) {
            if constexpr (PARTS > 1) kf_store_n((C*)args[2].p + at + i + j, v, some);
            else write(out + (i + j) * to, finished(v, s.count), some, to);
          };
          if (step == 1 && i + COLS * W <= n) folded<true>(in + i, s.reduced, low, high, COLS * W, 1, 1, put);
          else folded<false>(in + i * step, s.reduced, low, high, n - i < COLS * W ? n - i : COLS * W, step, times, put);
        }
        at += n;
      }
    });
    begin = stop;
  }
}
