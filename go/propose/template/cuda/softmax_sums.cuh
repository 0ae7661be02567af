// APART: the maximum of a whole row comes first, then each exponential is made once, in place of its element.
constexpr bool APART = FLOAT && sizeof(IN) == 4;
struct Highest { KF_INLINE Part operator()(Part a, Part b) const { return {most_of(a.most, b.most), A(0)}; } };
// The maximum of N elements and, where it is not for later, the sum of the exponentials below it.
template <int N> KF_INLINE Part sums_of(const A* v) {
  A most = v[0], part[N];
#pragma unroll
  for (int i = 1; i < N; ++i) most = most_of(most, v[i]);
  if constexpr (APART) return {most, A(0)};
  const A base = base_of(most);
#pragma unroll
  for (int i = 0; i < N; ++i) part[i] = power(v[i] - base);
  return {most, total<N>(part)};
}
