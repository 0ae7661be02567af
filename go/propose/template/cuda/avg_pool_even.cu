// Average pooling to windows that do not meet and fill the plane: adaptive, with sizes that divide, and pools whose stride is their kernel. No gaps.
//
// Idea: windows of KH x KW are constants, so all loads of a thread are in flight at once. NCHW: a thread has one output and reads each row of its window as
// vectors. NHWC (LAST): it has VEC channels of one output. Neighbouring threads have neighbouring outputs, whose rows meet in a line of the L1.
// Bound: one read of the input.
// Works for: windows of up to 64 elements whose rows, or with LAST channels, are whole vectors.
// Parameters the tree may change: VEC, THREADS.
// Numerics: float (double for double), added up in eager's order, divided by the rows, then by the columns, as eager's adaptive pool does.

// @include rows.cuh

// @include quotient.cuh

constexpr int N = LAST ? VEC : 1, STEP = LAST ? 1 : VEC, AT_ONCE = KH * KW * sizeof(T) * (LAST ? VEC : 1) <= 512 ? KH : 1;

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const kf_divider<INDEX> inner = {vectors, vectors_magic}, across = {width, width_magic};
  INDEX i = INDEX(blockIdx.x) * THREADS + INDEX(threadIdx.x);
  if (i >= count) return;
  T* to = out + i * N;
  // Without gaps, input rows of KH output rows follow one another whatever plane they are of.
  const INDEX channel = LAST ? inner.split(i) * VEC : 0, channels = LAST ? vectors * VEC : 1, column = across.split(i), line = width * KW * channels;
  const T* p = x + i * KH * line + column * KW * channels + channel;
  const bool aligned = aligned_tensor<VEC>(x);
  kf_vec<A, N> sum = all_of<N>(A(0));
#pragma unroll AT_ONCE
  for (int h = 0; h < KH; ++h) {
    kf_vec<A, VEC> v[KW / STEP];
#pragma unroll
    for (int w = 0; w < KW / STEP; ++w) v[w] = get<VEC>(p + h * line + w * STEP * channels, aligned);
#pragma unroll
    for (int w = 0; w < KW / STEP; ++w)
#pragma unroll
      for (int e = 0; e < VEC; ++e) sum[LAST ? e : 0] += v[w][e];
  }
#pragma unroll
  for (int e = 0; e < N; ++e) sum[e] = DIVISOR != 0 ? divided<DIVISOR != 0 ? DIVISOR : 1>(sum[e]) : ADAPTIVE ? divided<KW>(divided<KH>(sum[e])) : divided<KH * KW>(sum[e]);
  put<N>(to, sum, aligned_tensor<N>(out));
}
