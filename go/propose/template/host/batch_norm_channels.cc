// Batch norm in inference where channels are contiguous: y = x * scale[c] + shift[c], position by position.
//
// Idea: a first kernel makes the terms of the channels; ROWS positions at a time share each load of them. Bound: copy of the bytes.
// Works for: dense positions of any number; a matrix of rows and channels is the case of one position a row.
// Parameters the tree may change: ROWS, STREAM (stores past the caches, where rows are aligned), KF_LANES, GRAIN.
// Numerics: one fused multiply-add in float (double for double), as eager.

// @include batch_norm.h

template <int R> KF_INLINE void rows(const T* x, T* out, const A* terms, int64_t C) {
  auto put = [&](int64_t c, int64_t n) __attribute__((always_inline)) {
    const V scale = n == L ? kf_load(terms + c) : kf_load_n(terms + c, n), shift = n == L ? kf_load(terms + C + c) : kf_load_n(terms + C + c, n);
    for (int r = 0; r < R; ++r) {
      const T* p = x + r * C + c;
      T* o = out + r * C + c;
      if (n < L) kf_store_n(o, kf_fma(kf_load_n(p, n), scale, shift), n);
      else if (STREAM && uintptr_t(o) % (L * sizeof(T)) == 0) kf_stream(o, kf_fma(kf_load(p), scale, shift));
      else kf_store(o, kf_fma(kf_load(p), scale, shift));
    }
  };
  int64_t c = 0;
  for (; c + L <= C; c += L) put(c, L);
  if (c < C) put(c, C - c);
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t C = a[3].i;
  const A* terms = (const A*)a[2].p;
  const T* x = (const T*)a[0].p;
  T* out = (T*)a[1].p;
  int64_t i = begin;
  for (; i + ROWS <= end; i += ROWS) rows<ROWS>(x + i * C, out + i * C, terms, C);
  for (; i < end; ++i) rows<1>(x + i * C, out + i * C, terms, C);
  if (STREAM) kf_stream_end();
}
