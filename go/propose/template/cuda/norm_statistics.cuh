// The mean of a row in registers, and the squares about it.
//
// WHOLE: every thread has ITEMS whole vectors, and nothing asks where a row ends. A warp takes the mean of its own part and the squares about that; warps
// join theirs behind one barrier. A row that is not whole, whose sum overflows or whose mean is large beside the deviation goes the careful way: the mean
// of the whole row, squares about it, and what is left of the mean.

// @include deviation.cuh

// @include quotient.cuh

struct Statistics { A mean, rstd; };
KF_INLINE int row_length(INDEX length) { return WHOLE ? ITEMS * VEC * TEAM : int(length); }
KF_INLINE bool is_finite(A x) { return x - x == 0; }
template <class X, class Fold> KF_INLINE X team(X x, Fold fold) {
  if constexpr (TEAM <= 32) return kf_warp_fold<TEAM>(x, fold); else return kf_block_fold<TEAM>(x, fold);
}
// The sum over this thread's elements of f(element, whether it is one of the row's).
template <class F> KF_INLINE A mine(const kf_vec<A, VEC> (&v)[ITEMS], int t, int n, F f) {
  A sum[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    A part[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) part[e] = f(v[i][e], WHOLE || (i * TEAM + t) * VEC < n);
    sum[i] = total<VEC>(part);
  }
  return total<ITEMS>(sum);
}

// What the warps of a team have, folded by fold(one, other, warps of each) behind one barrier. Turns alternate: a slow warp may still read what a fast one
// must not write again.
template <class X, class Fold> KF_INLINE X of_warps(X x, int turn, Fold fold) {
  if constexpr (TEAM > 32) {
    constexpr int Warps = TEAM / 32 > 0 ? TEAM / 32 : 1;
    __shared__ kf_shuffled<X> part[2][Warps];
    if (threadIdx.x % 32 == 0) part[turn][threadIdx.x / 32].value = x;
    __syncthreads();
    x = part[turn][threadIdx.x % Warps].value;
#pragma unroll
    for (int warps = 1; warps < Warps; warps *= 2) x = fold(x, kf_shuffle_xor(x, warps), warps);
  }
  return x;
}

// The same number; what is taken from it is taken again, and not kept for each element from the last time.
KF_INLINE float anew(float x) { return __uint_as_float(kf_anew(__float_as_uint(x))); }
KF_INLINE double anew(double x) { return x; }

struct Part { A sum, squares; };  // of some elements, the squares about their own mean
KF_INLINE Part of_parts(const kf_vec<A, VEC> (&v)[ITEMS], int t, int n, int turn) {
  constexpr int COUNT = ITEMS * VEC * kf_least(TEAM, 32);
  const A sum = kf_warp_fold<kf_least(TEAM, 32)>(mine(v, t, n, [](A x, bool) { return x; }), kf_sum_of()), middle = anew(divided<COUNT>(sum));
  const A squares = mine(v, t, n, [=](A x, bool) { return (x - middle) * (x - middle); });
  // Both sides of a join have equally many elements (Chan, Golub and LeVeque 1979).
  return of_warps(Part{sum, kf_warp_fold<kf_least(TEAM, 32)>(squares, kf_sum_of())}, turn, [](Part a, Part b, int warps) {
    const A apart = b.sum - a.sum;
    return Part{a.sum + b.sum, apart * (A(0.5) / A(COUNT * warps)) * apart + (a.squares + b.squares)};
  });
}

KF_INLINE A over(A x, int n) {
  if constexpr (WHOLE) return divided<ITEMS * VEC * TEAM>(x); else return x / A(n);
}
// The mean of a row of n elements. Its sum may overflow where the mean need not; always scaling would cost denormals digits.
KF_INLINE A mean_of(const kf_vec<A, VEC> (&v)[ITEMS], int t, int n) {
  const A part = mine(v, t, n, [](A x, bool) { return x; });
  A mean;
  if constexpr (FEW) {
    const Exact sum = team(Exact{part, 0}, JoinExact());
    mean = share_of(sum.sum, A(n), lost_of(sum));
  } else {
    mean = over(team(part, kf_sum_of()), n);
  }
  if (__any_sync(0xffffffffu, !is_finite(mean))) {
    const A scaled = team(mine(v, t, n, [=](A x, bool) { return x * (A(1) / A(n)); }), kf_sum_of());
    if (!is_finite(mean)) mean = scaled;
  }
  return mean;
}
struct Row { A mean, squares; };
struct Both { KF_INLINE Row operator()(Row a, Row b) const { return {a.mean + b.mean, a.squares + b.squares}; } };
// Roundings of x - mean share a sign within a binade, so they add up: what is left of the mean only helps where that is large beside the deviation.
KF_INLINE Row of_row(const kf_vec<A, VEC> (&v)[ITEMS], int t, int n) {
  const A mean = mean_of(v, t, n);
  const Row rest = team(Row{mine(v, t, n, [=](A x, bool in) { return in ? x - mean : A(0); }),
                            mine(v, t, n, [=](A x, bool in) { return in ? (x - mean) * (x - mean) : A(0); })}, Both());
  return {mean * mean * A(n) > 4 * rest.squares && is_finite(rest.mean) ? mean + over(rest.mean, n) : mean, rest.squares};
}
// The same of a whole row, one after the other, which takes fewer registers.
KF_INLINE Row carefully(const kf_vec<A, VEC> (&v)[ITEMS], int t, int n) {
  A mean = anew(mean_of(v, t, n));
  const A rest = team(mine(v, t, n, [=](A x, bool) { return x - mean; }), kf_sum_of());
  if (is_finite(rest)) mean += rest * (A(1) / A(n));
  return {mean, team(mine(v, t, n, [=](A x, bool) { return (x - mean) * (x - mean); }), kf_sum_of())};
}

KF_INLINE A rstd_of(Exact squares, int n, A eps) { return rstd_of(squares.sum, A(n), over(squares.sum, n), eps, lost_of(squares)); }
// Of a team's row of n elements, which lie beyond the others as zeros. All threads of the block come here; of one call after another, with turns 0 and 1.
KF_INLINE Statistics statistics(const kf_vec<A, VEC> (&v)[ITEMS], int t, int n, A eps, int turn = 0) {
  if constexpr (RMS) {
    Exact squares = {mine(v, t, n, [](A x, bool) { return x * x; }), 0};
    if constexpr (FEW) {
      squares = team(squares, JoinExact());
    } else {
      squares.sum = kf_warp_fold<kf_least(TEAM, 32)>(squares.sum, kf_sum_of());
      squares.sum = of_warps(squares.sum, turn, [](A a, A b, int) { return a + b; });
    }
    if constexpr (SPREADS)
      if (__any_sync(0xffffffffu, !is_finite(squares.sum)))  // NaN where an element is infinite
        squares.sum += team(mine(v, t, n, [](A x, bool) { return x - x; }), kf_sum_of());
    return {0, rstd_of(squares, n, eps)};
  } else if constexpr (FEW) {
    const A mean = mean_of(v, t, n);
    const A squares = mine(v, t, n, [=](A x, bool in) { return in ? (x - mean) * (x - mean) : A(0); });
    return {mean, rstd_of(team(Exact{squares, 0}, JoinExact()), n, eps)};
  } else if constexpr (WHOLE) {
    const Part part = of_parts(v, t, n, turn);
    const A mean = over(part.sum, n);
    Row row = {mean, part.squares};
    const bool care = !is_finite(mean) || mean * mean * A(n) > 4 * part.squares;
    if (__any_sync(0xffffffffu, care)) {
      const Row again = carefully(v, t, n);
      if (care) row = again;
    }
    return {row.mean, rstd_of({row.squares, 0}, n, eps)};
  } else {
    const Row row = of_row(v, t, n);
    return {row.mean, rstd_of({row.squares, 0}, n, eps)};
  }
}
