// A row is read once and kept in registers: maximum, exponentials and their sum, result.
template <class X, class Fold> KF_INLINE X team(X x, Fold fold) {
  if constexpr (TEAM <= 32) return kf_warp_fold<TEAM>(x, fold); else return kf_block_fold<TEAM>(x, fold);
}
KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const int t = threadIdx.x % TEAM, n = int(length);
  const INDEX row = INDEX(blockIdx.x) * (THREADS / TEAM) + INDEX(threadIdx.x / TEAM);
  const bool valid = row < rows, aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
  const IN* p = x + int64_t(valid ? row : 0) * n;
  OUT* o = out + int64_t(valid ? row : 0) * n;
  kf_vec<A, VEC> v[ITEMS];
  A most = -kf_infinity<A>();
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int at = (i * TEAM + t) * VEC;
    v[i] = valid && at < n ? get<VEC>(p + at, aligned) : all_of<VEC>(-kf_infinity<A>());
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
#pragma unroll
    for (int e = 0; e < VEC; ++e) most = most_of(most, v[i][e]);
  most = team(most, Most());
  const A base = base_of(most);
  A sums[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    A part[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      part[e] = power(v[i][e] - base);
      if constexpr (!LOG) v[i][e] = part[e];
    }
    sums[i] = total<VEC>(part);
  }
  const A sum = team(total<ITEMS>(sums), kf_sum_of());
  if (!valid) return;
  const Finish finish(Part{most, sum});
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int at = (i * TEAM + t) * VEC;
    if (at >= n) break;
#pragma unroll
    for (int e = 0; e < VEC; ++e) v[i][e] = LOG ? finish.of_element(v[i][e]) : finish.of_power(v[i][e]);
    put<VEC>(o + at, v[i], aligned);
  }
}
