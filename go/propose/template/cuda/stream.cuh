// All blocks together visit `count` elements of a walk: the kernel's THREADS threads take UNROLL vectors of VEC elements each, THREADS vectors
// apart, and load all of them before `op` makes RESULT of each element of the ARITY operands.
#if ARITY < 2
#define IN1 IN0
#endif
#if ARITY < 3
#define IN2 IN0
#endif
// N elements of operand K; UNIT has bit K where they lie side by side, else they are one element.
template <int K, int N, class T> KF_INLINE kf_vec<T, N> take(const T* p, INDEX at) {
  if constexpr (N == 1 || (UNIT >> K & 1)) {
    return kf_load<N, ONCE && (UNIT >> K & 1)>(p + at);
  } else {
    kf_vec<T, N> v;
    const T x = p[at];
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] = x;
    return v;
  }
}

struct Operands {
  OUT* out;
  const IN0* a;
  const IN1* b;
  const IN2* c;
};

// U vectors of a thread, THREADS vectors apart, the first one `first`.
template <int N, int U> KF_INLINE void tile(const Operands& on, const Walk<1 + ARITY, DIMS>& walk, INDEX first) {
  INDEX at[U][1 + ARITY];
  kf_vec<IN0, N> a[U];
  kf_vec<IN1, N> b[U];
  kf_vec<IN2, N> c[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    walk.find(first + u * THREADS, at[u]);
    a[u] = take<1, N>(on.a, at[u][1]);
#if ARITY > 1
    b[u] = take<2, N>(on.b, at[u][2]);
#endif
#if ARITY > 2
    c[u] = take<3, N>(on.c, at[u][3]);
#endif
  }
#pragma unroll
  for (int u = 0; u < U; ++u) {
    kf_vec<RESULT, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j)
#if ARITY == 1
      y[j] = op(a[u][j]);
#elif ARITY == 2
      y[j] = op(a[u][j], b[u][j]);
#else
      y[j] = op(a[u][j], b[u][j], c[u][j]);
#endif
    kf_store<ONCE>(on.out + at[u][0], kf_narrow<OUT>(y));
  }
}

// `count` vectors of N elements, shared by all blocks. The last tile, which may be partly empty, goes vector by vector: a loop is a quarter of the
// code, and one block in many has it. WHOLE: every count of the card is of whole tiles.
template <int N> KF_INLINE void run(const Operands& on, const Walk<1 + ARITY, DIMS>& walk, INDEX count) {
  constexpr INDEX TILE = THREADS * UNROLL;
  for (INDEX start = INDEX(blockIdx.x) * TILE; start < count; start += INDEX(gridDim.x) * TILE) {
    if (WHOLE || start + TILE <= count) {
      tile<N, UNROLL>(on, walk, start + INDEX(threadIdx.x));
      continue;
    }
    if constexpr (!WHOLE) {
#pragma unroll 1
      for (INDEX i = start + INDEX(threadIdx.x); i < count; i += THREADS) tile<N, 1>(on, walk, i);
    }
  }
}

// The elements as whole vectors where addresses allow it. A walk of several rows has rows of whole vectors; one row may have a rest.
KF_INLINE void all(const Operands& on, const Walk<1 + ARITY, DIMS>& vectors, const Walk<1 + ARITY, DIMS>& elements, INDEX count) {
  if constexpr (VEC > 1) {
    bool aligned = aligned_tensor<VEC>(on.out);
    if (UNIT & 2) aligned &= aligned_tensor<VEC>(on.a);
    if (ARITY > 1 && UNIT & 4) aligned &= aligned_tensor<VEC>(on.b);
    if (ARITY > 2 && UNIT & 8) aligned &= aligned_tensor<VEC>(on.c);
    if (aligned) {
      run<VEC>(on, vectors, count / VEC);
      if constexpr (DIMS == 1 && !WHOLE) {
        const INDEX i = count / VEC * VEC + INDEX(threadIdx.x);
        if (blockIdx.x == 0 && i < count) tile<1, 1>(on, elements, i);
      }
      return;
    }
  }
  if constexpr (VEC == 1 || SHIFTED) run<1>(on, elements, count);
}
