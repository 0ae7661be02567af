// Count, mean and squares about it of some elements, joined without cancellation (Chan, Golub and LeVeque 1979).
struct Moments { A count, mean, squares; };
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
// One answer for all threads: the two orders of a join differ in the last bit.
template <int Threads> KF_INLINE Moments joined(Moments m) { return kf_shuffle(kf_block_fold<Threads>(m, Join()), 0); }
