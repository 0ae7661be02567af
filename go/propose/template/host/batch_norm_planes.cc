// Batch norm in inference over planes that lie in one run each: y = x * scale + shift with one scale and shift a plane.
//
// Idea: a first kernel makes the terms of the channels, so that a plane costs one multiply-add an element. Bound: copy of the bytes.
// Works for: any rank with dense planes; batch and channel strides are arguments.
// Parameters the tree may change: UNROLL (vectors at a time), STREAM (stores past the caches), KF_LANES, GRAIN.
// Numerics: one fused multiply-add in float (double for double), as eager.

// @include batch_norm.h

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  const int64_t C = a[3].i, size = a[4].i, sn = a[5].i, sc = a[6].i;
  const A* terms = (const A*)a[2].p;
  for (int64_t i = begin; i < end; ++i) {
    const T* x = (const T*)a[0].p + i / C * sn + i % C * sc;
    T* out = (T*)a[1].p + i * size;
    const V scale = kf_set(terms[i % C]), shift = kf_set(terms[C + i % C]);
    int64_t j = 0;
    if (STREAM && size >= L) {  // the head up to an aligned address
      j = -uintptr_t(out) % (L * sizeof(T)) / sizeof(T);
      if (j > 0) kf_store_n(out, kf_fma(kf_load_n(x, j), scale, shift), j);
    }
    auto put = [&](int64_t k) __attribute__((always_inline)) {
      const V y = kf_fma(kf_load(x + k), scale, shift);
      if (STREAM) kf_stream(out + k, y); else kf_store(out + k, y);
    };
    for (; j + UNROLL * L <= size; j += UNROLL * L)
      for (int u = 0; u < UNROLL; ++u) put(j + u * L);
    for (; j + L <= size; j += L) put(j);
    if (j < size && size >= L && !STREAM) put(size - L);  // overlaps the vector before
    else if (j < size) kf_store_n(out + j, kf_fma(kf_load_n(x + j, size - j), scale, shift), size - j);
  }
  if (STREAM) kf_stream_end();
}
