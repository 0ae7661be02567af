// Group norm where channels are contiguous.
//
// Idea: kf_gather takes the moments of each channel over a piece of the positions, vectors across channels; kf_join joins the pieces and
// channels of a group and makes the terms of each channel; kf_main applies them. Bound: one more reading than a copy.
// Works for: dense tensors of any sizes; weight and bias of any floating type or absent.
// Parameters the tree may change: PIECES (of a sample's positions), UNROLL (vectors in flight), KF_LANES, GRAIN.
// Numerics: means in double, squares in float (double for double) about the mean of BLOCK positions; (x - mean) * scale + bias.

// @include moments.h

constexpr int64_t BLOCK = 64;

// The moments of U vectors of channels, n lanes of each, over `positions` positions at x: means, and C further on sums of squares. In vectors
// throughout: g++ 12 mixes up the lanes of the same join as a loop over arrays.
template <int U> static void gather(const T* x, int64_t positions, int64_t C, int n, double* out) {
  Sum mean[U], squares[U];
  for (int64_t from = 0; from < positions; from += BLOCK, x += BLOCK * C) {
    const int64_t count = positions - from < BLOCK ? positions - from : BLOCK;
    Sum sum[U], off[U], square[U];
    int64_t k = 0;
    for (; k + 4 <= count; k += 4)
      for (int u = 0; u < U; ++u) {
        const T* p = x + k * C + u * L;
        sum[u] += (load(p, n) + load(p + C, n)) + (load(p + 2 * C, n) + load(p + 3 * C, n));
      }
    for (; k < count; ++k)
      for (int u = 0; u < U; ++u) sum[u] += load(x + k * C + u * L, n);
    const double part = double(count), share = part / double(from + count), weight = double(from) * share;
    V about[U];
    for (int u = 0; u < U; ++u) about[u] = sum[u].over(part);
    for (k = 0; k < count; k += RUN) {
      V d1[U] = {}, d2[U] = {};
      for (int64_t j = k; j < k + RUN && j < count; ++j)
        for (int u = 0; u < U; ++u) {
          const V d = load(x + j * C + u * L, n) - about[u];
          d1[u] += d;
          d2[u] = kf_fma(d, d, d2[u]);
        }
      for (int u = 0; u < U; ++u) off[u] += d1[u], square[u] += d2[u];
    }
    for (int u = 0; u < U; ++u) {  // Moments::join for every channel
      Sum middle;
      middle += about[u];
      for (int i = 0; i < Sum::PARTS; ++i) {
        const kf_f64 spread = square[u].lanes[i], rest = spread < __builtin_inf() ? off[u].lanes[i] : kf_f64{};
        const kf_f64 apart = middle.lanes[i] + rest / part - mean[u].lanes[i];
        mean[u].lanes[i] += apart * share;
        squares[u].lanes[i] += spread - rest * (rest / part) + apart * apart * weight;
      }
    }
  }
  double means[U * L], sums[U * L];
  __builtin_memcpy(means, mean, sizeof means);
  __builtin_memcpy(sums, squares, sizeof sums);
  for (int u = 0; u < U; ++u)
    for (int l = 0; l < n; ++l) out[u * L + l] = means[u * L + l], out[C + u * L + l] = sums[u * L + l];
}
// ws0: for each sample and piece, C means, then C sums of squares; ws1: for each sample, what `Line` has of C channels, one after the other.
KF_ENTRY void kf_gather(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t C = a[2].i, size = a[3].i, step = (size + PIECES - 1) / PIECES;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t from = i % PIECES * step, to = from + step < size ? from + step : size;
    const T* x = (const T*)a[0].p + (i / PIECES * size + from) * C;
    double* out = (double*)a[1].p + i * 2 * C;
    int64_t c = 0;
    for (; c + UNROLL * L <= C; c += UNROLL * L) gather<UNROLL>(x + c, to - from, C, L, out + c);
    for (; c < C; c += L) gather<1>(x + c, to - from, C, C - c < L ? int(C - c) : L, out + c);
  }
}
template <class P> KF_INLINE double parameter(const void* p, int64_t i, double missing) {
  if constexpr (__is_same(P, void)) return missing; else return double(kf_of(((const P*)p)[i]));
}
KF_ENTRY void kf_join(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t C = a[6].i, size = a[7].i, groups = a[8].i, channels = C / groups, step = (size + PIECES - 1) / PIECES;
  const double eps = double(A(a[9].f));
  for (int64_t i = begin; i < end; ++i) {
    const int64_t sample = i / groups, first = i % groups * channels;
    Moments all;
    for (int64_t p = 0; p < PIECES && p * step < size; ++p) {
      const double* part = (const double*)a[0].p + (sample * PIECES + p) * 2 * C;
      const double count = double((p + 1) * step < size ? step : size - p * step);
      for (int64_t c = first; c < first + channels; ++c) all.join({count, part[c], part[C + c]});
    }
    const double rstd = inverse_root(all.squares / all.count, eps);
    ((STAT*)a[4].p)[i] = kf_to<STAT>(kf_acc<STAT>(all.mean));
    ((STAT*)a[5].p)[i] = kf_to<STAT>(kf_acc<STAT>(rstd));
    A* terms = (A*)a[1].p + sample * 3 * C;
    for (int64_t c = first; c < first + channels; ++c) {
      const Line l = line(all.mean, rstd, parameter<WEIGHT>(a[2].p, c, 1), parameter<BIAS>(a[3].p, c, 0));
      terms[c] = l.about, terms[C + c] = l.scale, terms[2 * C + c] = l.shift;
    }
  }
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t C = a[3].i, size = a[4].i;
  for (int64_t i = begin; i < end; ++i) {
    const T* x = (const T*)a[0].p + i * C;
    T* out = (T*)a[1].p + i * C;
    const A* terms = (const A*)a[2].p + i / size * 3 * C;
    each(C, [&](int64_t c, int n, int) __attribute__((always_inline)) {
      store(out + c, kf_fma(load(x + c, n) - load(terms + c, n), load(terms + C + c, n), load(terms + 2 * C + c, n)), n);
    });
  }
}
