// Softmax or (LOG) log-softmax along a short dim that is not the innermost: a thread has whole columns.
//
// Idea: a thread keeps all elements of VEC neighbouring columns as they came, so no thread waits for another; neighbouring threads read whole lines.
// Bound: copy of the bytes; of half types two exponentials an element.
// Works for: contiguous tensors seen as outer x dim x inner, whose dim fits the registers of a thread; VEC divides inner.
// Parameters the tree may change: THREADS, VEC (columns of an access), ONCE (outputs do not stay in the L2).
// Numerics: as softmax_warps.

// @include rows.cuh

// @include softmax.cuh

// Vectors are kept in words: the compiler would give each half element a register.
using Words = kf_words<IN, VEC>;
KF_INLINE Words::word fetch(const IN* p, bool aligned) {
  Words v;
  if (!SHIFTED || aligned) return *(const Words::word*)p;
#pragma unroll
  for (int e = 0; e < VEC; ++e) v.vec[e] = p[e];
  return v.words[0];
}
KF_INLINE A element(const Words::word& word, int e) {
  Words v;
  v.words[0] = word;
  return kf_of(v.vec[e]);
}
// Of float an exponential takes the place of its element, so that it is made once.
constexpr bool KEEP = FLOAT && sizeof(IN) == 4;
KF_INLINE void replace(Words::word& word, int e, A x) {
  Words v;
  v.words[0] = word;
  v.vec[e] = kf_to<IN>(x);
  word = v.words[0];
}
KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const INDEX outer = INDEX(blockIdx.x) / blocks, column = ((INDEX(blockIdx.x) - outer * blocks) * THREADS + INDEX(threadIdx.x)) * VEC;
  if (column >= inner) return;
  const int n = int(length);
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
  const int64_t from = int64_t(outer) * n * inner + column;
  Words::word v[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i < n) v[i] = fetch(x + from + int64_t(i) * inner, aligned);
  A most[VEC], sum[VEC];
#pragma unroll
  for (int e = 0; e < VEC; ++e) {
    most[e] = -kf_infinity<A>();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < n) most[e] = most_of(most[e], element(v[i], e));
    const A base = base_of(most[e]);
    A part[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      part[i] = i < n ? power(element(v[i], e) - base) : A(0);
      if constexpr (KEEP) replace(v[i], e, part[i]);
    }
    sum[e] = total<ITEMS>(part);
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (i >= n) break;
    kf_vec<A, VEC> y;
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      const Finish finish(Part{most[e], sum[e]});
      y[e] = KEEP ? finish.of_power(element(v[i], e)) : finish.of_element(element(v[i], e));
    }
    put<VEC, ONCE>(out + from + int64_t(i) * inner, y, aligned);
  }
}
