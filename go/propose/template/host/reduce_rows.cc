// Reduce rows: sum, mean or maximum where the reduced elements lie side by side.
//
// Idea: reduced dims and kept dims are sorted and joined on their own; each output folds its reduced elements by rows of UNROLL hardware vectors.
// With PARTS > 1 each output's elements are folded in that many parts, whose results a second kernel joins: for few outputs of many elements.
// Bound: one read of the input.
// Works for: any dims and strides (reduced elements that are not side by side are read one by one). PARTS is fixed, so that a result does not
// depend on the number of threads.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), UNROLL, KF_LANES, PARTS.
// Numerics: float arithmetic (double for double), errors that do not grow with the count (fold.h); a maximum with a NaN is NaN.

// @include walk.h
// @include fold.h

// Folds n elements that lie `step` apart. `since` counts what went in since the last flush.
KF_INLINE void row(Fold (&f)[UNROLL], int64_t& since, const IN* p, int64_t n, int64_t step) {
  int64_t i = 0;
  if (step == 1) {
    for (; i + UNROLL * W <= n; i += UNROLL * W) {
      for (int u = 0; u < UNROLL; ++u) f[u].add(kf_load(p + i + u * W));
      if (++since == BLOCK) {
        for (int u = 0; u < UNROLL; ++u) f[u].flush();
        since = 0;
      }
    }
    for (; i + W <= n; i += W) f[0].add(kf_load(p + i));
    if (i < n) f[UNROLL - 1].add(counted(kf_load_n(p + i, n - i), n - i));
    since += UNROLL;
  } else {
    for (; i < n; i += W, ++since) {
      V v = {};
      for (int64_t j = 0; j < W && i + j < n; ++j) v[j] = kf_of(p[(i + j) * step]);
      f[0].add(counted(v, n - i));
      if (since >= BLOCK) f[0].flush(), since = 0;
    }
  }
  if (since >= BLOCK) {
    for (int u = 0; u < UNROLL; ++u) f[u].flush();
    since = 0;
  }
}
// The part [begin, end) of one output's elements, in the order of the reduced loop.
KF_INLINE C folded(const IN* in, const Loop<1>& reduced, int64_t begin, int64_t end) {
  Fold f[UNROLL];
  int64_t since = 0;
  const int64_t step = reduced.stride[0][reduced.dims - 1];
  if (reduced.dims == 1) {
    row(f, since, in + begin * step, end - begin, step);
  } else {
    reduced.run(begin, end, [&](int64_t m, int64_t n, const int64_t* offset) {
      for (int64_t r = 0; r < m; ++r) row(f, since, in + offset[0] + r * reduced.next(0), n, step);
    });
  }
  for (int u = 1; u < UNROLL; ++u) f[0].merge(f[u]);
  return f[0].over();
}

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const IN* in = (const IN*)args[1].p;
  const Shape s = shape_of(args);
  const int64_t from = s.kept.stride[0][s.kept.dims - 1], to = s.kept.stride[1][s.kept.dims - 1];
  for (int64_t part = begin / s.outputs; begin < end; ++part) {
    const int64_t stop = (part + 1) * s.outputs < end ? (part + 1) * s.outputs : end;
    const int64_t low = s.count * part / PARTS, high = s.count * (part + 1) / PARTS;
    int64_t at = begin;
    s.kept.run(begin - part * s.outputs, stop - part * s.outputs, [&](int64_t m, int64_t n, const int64_t* offset) {
      for (int64_t r = 0; r < m; ++r)
        for (int64_t i = 0; i < n; ++i) {
          const C total = folded(in + offset[0] + r * s.kept.next(0) + i * from, s.reduced, low, high);
          if constexpr (PARTS > 1) ((C*)args[2].p)[at++] = total;
          else ((OUT*)args[0].p)[offset[1] + r * s.kept.next(1) + i * to] = kf_to<OUT>(finished(total, s.count));
        }
    });
    begin = stop;
  }
}
