// @include deviation.cuh

// Count, mean and squares about it of some elements, joined without cancellation (Chan, Golub and LeVeque 1979).
#if FEW
struct Moments { A count, mean, squares, lost_mean, lost_squares; };  // lost: what is rounded off where threads are joined
#else
struct Moments { A count, mean, squares; };
#endif
struct Join {
  KF_INLINE Moments operator()(Moments a, Moments b) const {
    if (a.count == 0 || b.count == 0) return b.count == 0 ? a : b;  // a share of 0 times an infinity would be NaN
    const A count = a.count + b.count;
    const A share = b.count / count, apart = b.mean - a.mean;
    return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * (a.count * share)};
  }
};
// The moments of N elements, a power of two. Scaling them before they are added would cost denormals digits, so that is only done where the sum
// overflows.
template <int N> KF_INLINE Moments moments_of(const A* v) {
  A mean = total<N>(v) * (A(1) / A(N)), part[N];
  if (!(mean - mean == 0)) {
#pragma unroll
    for (int i = 0; i < N; ++i) part[i] = v[i] * (A(1) / A(N));
    mean = total<N>(part);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) part[i] = (v[i] - mean) * (v[i] - mean);
  return {A(N), mean, total<N>(part)};
}
// These about a mean; and all of them, whose moments are nearly known.
KF_INLINE About about(const Moments& m, A middle) {
  if (m.count == 0) return {};
#if FEW
  return about({m.mean, m.lost_mean}, {m.squares, m.lost_squares}, m.count, middle);
#else
  return about({m.mean, 0}, {m.squares, 0}, m.count, middle);
#endif
}
KF_INLINE Moments again(const Moments& all, const About& parts) {
  const Exact mean = plus({all.mean, 0}, value_of(parts.rest) / all.count), squares = plus(parts.squares, 0);
  if (!(mean.lost - mean.lost == 0)) return all;
#if FEW
  return {all.count, mean.sum, squares.sum, mean.lost, lost_of(squares)};
#else
  return {all.count, mean.sum, value_of(squares)};
#endif
}
// What threads have, joined by fold(mine, how). One answer for all: the two orders of a join differ in the last bit.
template <class Fold, class How = Join> KF_INLINE Moments of_threads(Moments m, Fold fold, How how = How()) {
  const Moments all = kf_shuffle(fold(m, how), 0);
  if constexpr (FEW) return again(all, fold(about(m, all.mean), JoinAbout())); else return all;
}
template <int Threads> KF_INLINE Moments joined(Moments m) {
  return of_threads(m, [](auto x, auto fold) { return kf_block_fold<Threads>(x, fold); });
}
// Of all n elements of a row.
KF_INLINE A rstd_of(const Moments& m, A n, A eps) {
#if FEW
  return rstd_of(m.squares, n, m.squares / n, eps, m.lost_squares);
#else
  return rstd_of(m.squares, n, m.squares / n, eps);
#endif
}
