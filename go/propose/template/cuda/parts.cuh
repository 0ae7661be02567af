// A part of a group of a group norm that a block has: ITEMS vectors of each thread, as they came, THREADS vectors apart. The vectors of RUN steps lie in one
// channel, so that weight and bias are two numbers for all of them. Parts follow each other in memory, and all have equally many elements, as has either side
// of every join: no share is worked out (Chan, Golub and LeVeque 1979). kept(Number<i>()) is the thread's i-th vector, of registers or of shared memory.
constexpr int STEP = THREADS * VEC, PART = STEP * ITEMS, CHANNELS = ITEMS / RUN;
template <int I> struct Number { static constexpr int value = I; };

// @include deviation.cuh

// The squares are those about the mean.
#if FEW
struct Moments { A mean, squares, lost_mean, lost_squares; };  // lost: what is rounded off where threads are joined
KF_INLINE About about(const Moments& m, A count, A middle) { return about({m.mean, m.lost_mean}, {m.squares, m.lost_squares}, count, middle); }
KF_INLINE Moments moments_of(const About& all, A count, A middle) {
  const Exact mean = plus({middle, 0}, share_of(value_of(all.rest), count)), squares = plus(all.squares, 0);
  return mean.lost - mean.lost == 0 ? Moments{mean.sum, squares.sum, mean.lost, lost_of(squares)} : Moments{middle, squares.sum};
}
#else
struct Moments { A mean, squares; };
#endif
KF_INLINE Moments joined(Moments a, Moments b, A count) {  // count: of each side
  const A apart = b.mean - a.mean;
  return {A(0.5) * a.mean + A(0.5) * b.mean, a.squares + b.squares + apart * apart * (A(0.5) * count)};
}
KF_INLINE bool is_finite(A x) { return x - x == 0; }
// Of N vectors from the FIRST on, widened one after the other.
template <int FIRST, int N, class F> KF_INLINE Moments moments_of(F kept) {
  if constexpr (N > 1) {
    const Moments m = moments_of<FIRST, N / 2>(kept);
    return joined(m, moments_of<FIRST + N / 2, N / 2>(kept), A(N / 2 * VEC));
  } else {
    const kf_vec<A, VEC> v = elements_of(kept(Number<FIRST>()));
    const A mean = total<VEC>(v.at) * (A(1) / A(VEC));
    A part[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) part[e] = (v[e] - mean) * (v[e] - mean);
    return {mean, total<VEC>(part)};
  }
}
template <int LANES> KF_INLINE Moments of_lanes(Moments m, A count) {  // count: of each lane
#pragma unroll
  for (int lanes = 1; lanes < LANES; lanes *= 2, count *= 2) m = joined(m, kf_shuffle_xor(m, lanes), count);
  return m;
}
// Of the elements of all threads, in each of them.
KF_INLINE Moments of_block(Moments mine) {
  constexpr int WARPS = THREADS / 32, EACH = ITEMS * VEC;
  __shared__ kf_shuffled<Moments> warps[WARPS];
  const Moments m = of_lanes<32>(mine, EACH);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32].value = m;
  __syncthreads();
  const Moments all = of_lanes<WARPS>(warps[threadIdx.x % WARPS].value, EACH * 32);
#if FEW
  return moments_of(kf_block_fold<THREADS>(about(mine, EACH, all.mean), JoinAbout()), PART, all.mean);
#else
  return all;
#endif
}
template <class X> KF_INLINE X* vector_of_part(X* p, int i) { return vector_at(p + int64_t(blockIdx.x) * PART, i * THREADS + int(threadIdx.x)); }
// Of the block's part. Where a sum overflows, as its mean need not, the part is read again, and scaled before it is added.
template <class F> KF_INLINE Moments of_part(const IN* x, bool aligned, F kept) {
  const Moments m = of_block(moments_of<0, ITEMS>(kept));
  if (is_finite(m.mean)) return m;
  __syncthreads();
  Moments again = {0, 0};
  auto summed = [&](auto term) {
    A sum = 0;
#pragma unroll 1
    for (int i = 0; i < ITEMS; ++i) {
      kf_vec<A, VEC> v = elements_of(fetch(vector_of_part(x, i), aligned));
#pragma unroll
      for (int e = 0; e < VEC; ++e) v[e] = term(v[e]);
      sum += total<VEC>(v.at);
    }
    return sum;
  };
  again.mean = summed([](A v) { return v * (A(1) / A(ITEMS * VEC)); });
  again.squares = summed([=](A v) { return (v - again.mean) * (v - again.mean); });
  return of_block(again);
}
// Of a group, in every warp: part(k) are the moments of its k-th part. At most 512 parts, so that no lane adds up more than 16.
template <class F> KF_INLINE Moments of_group(int parts, F part) {
  const int lane = threadIdx.x % 32;
  [[maybe_unused]] A sum = 0, squares = 0;
#pragma unroll 1
  for (int k = lane; k < parts; k += 32) sum += part(k).mean;
  A mean = share_of(kf_warp_fold(sum, kf_sum_of()), A(parts));
  if (!is_finite(mean)) {
    const A share = share_of(A(1), A(parts));
    sum = 0;
#pragma unroll 1
    for (int k = lane; k < parts; k += 32) sum += part(k).mean * share;
    mean = kf_warp_fold(sum, kf_sum_of());
  }
#if FEW
  About all = {};
#pragma unroll 1
  for (int k = lane; k < parts; k += 32) all = JoinAbout()(all, about(part(k), PART, mean));
  return moments_of(kf_warp_fold(all, JoinAbout()), A(parts) * A(PART), mean);
#else
#pragma unroll 1
  for (int k = lane; k < parts; k += 32) {
    const Moments m = part(k);
    squares += m.squares + (m.mean - mean) * (m.mean - mean) * A(PART);
  }
  return {mean, kf_warp_fold(squares, kf_sum_of())};
#endif
}

KF_INLINE A rstd_of(const Moments& m, A n, A eps) {
#if FEW
  return rstd_of(m.squares, n, share_of(m.squares, n), eps, m.lost_squares);
#else
  return rstd_of(m.squares, n, share_of(m.squares, n), eps);
#endif
}
// Weight and bias of the part's steps, whose first one begins at element `at` of the group; asked for before the moments are known.
struct Affine { A weight[CHANNELS], bias[CHANNELS]; };
template <class W, class B> KF_INLINE Affine affine_of(const W* weight, const B* bias, int at, int first, const kf_divider<INDEX>& area) {
  Affine by;
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    [[maybe_unused]] const int channel = first + int(area.quotient(at + c * (RUN * STEP)));
    if constexpr (kf_same<W, void>) by.weight[c] = 1; else by.weight[c] = A(kf_of(weight[channel]));
    if constexpr (kf_same<B, void>) by.bias[c] = 0; else by.bias[c] = A(kf_of(bias[channel]));
  }
  return by;
}
template <int I = 0, class F> KF_INLINE void write_part(IN* out, bool aligned, F kept, A mean, A rstd, const Affine& by) {
  const A scale = rstd * by.weight[I / RUN], shift = by.bias[I / RUN];
  const kf_vec<A, VEC> v = elements_of(kept(Number<I>()));
  kf_vec<A, VEC> y;
#pragma unroll
  for (int e = 0; e < VEC; ++e) {
    y[e] = (v[e] - mean) * scale;
    if constexpr (!kf_same<BIAS, void>) y[e] += shift;
  }
  put<VEC, ONCE>(vector_of_part(out, I), y, aligned);
  if constexpr (I + 1 < ITEMS) write_part<I + 1>(out, aligned, kept, mean, rstd, by);
}
