// A row is read once and kept in registers: mean, then squares about it, then the result.
// @include norm_statistics.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  constexpr int ROWS = THREADS / TEAM;
  const int t = threadIdx.x % TEAM, n = row_length(length);
  const INDEX row = INDEX(blockIdx.x) * ROWS + INDEX(threadIdx.x / TEAM);
  const bool valid = row < rows;
  int64_t from = 0;
  [[maybe_unused]] INDEX rest = valid ? row : 0;
// @offset
  const T* p = x + from;
  T* o = out + int64_t(valid ? row : 0) * n;
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out) && aligned_parameter(weight) && aligned_parameter(bias);

  kf_vec<A, VEC> v[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int at = (i * TEAM + t) * VEC;
    v[i] = valid && at < n ? get<VEC>(p + at, aligned) : all_of<VEC>(A(0));
  }
  const auto [mean, rstd] = statistics(v, t, n, eps);
  if (!valid) return;
  if (t == 0) {
    if constexpr (!RMS) mean_out[row] = kf_to<STAT>(mean);
    rstd_out[row] = kf_to<STAT>(rstd);
  }
// @channel
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int at = (i * TEAM + t) * VEC;
    if (at >= n) break;
    put<VEC>(o + at, normed<false>(v[i], mean, rstd, weight, bias, at, first, area, aligned), aligned);
  }
}
