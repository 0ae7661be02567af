// The maximum of N elements and the sum of the exponentials below it.
template <int N> KF_INLINE Part sums_of(const A* v) {
  A most = v[0], part[N];
#pragma unroll
  for (int i = 1; i < N; ++i) most = most_of(most, v[i]);
  const A base = base_of(most);
#pragma unroll
  for (int i = 0; i < N; ++i) part[i] = power(v[i] - base);
  return {most, total<N>(part)};
}
