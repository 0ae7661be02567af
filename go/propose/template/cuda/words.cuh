// Vectors of 16 bytes. A vector's elements in arithmetic: it is kept in words of 32 bits: the compiler would give each half element a register.
KF_INLINE kf_vec<A, VEC> elements_of(const uint4& words) {
  union { uint4 words; kf_vec<IN, VEC> vec; } v;
  v.words = words;
  return kf_wide(v.vec);
}
// One vector; element by element where the tensor's address is odd. Once: the caches need not keep it.
template <bool Once = false> KF_INLINE uint4 fetch(const IN* p, bool aligned) {
  if (!SHIFTED || aligned) return Once ? __ldcs((const uint4*)p) : *(const uint4*)p;
  union { uint4 words; kf_vec<IN, VEC> vec; } v;
#pragma unroll
  for (int e = 0; e < VEC; ++e) v.vec[e] = p[e];
  return v.words;
}
// The i-th vector from p on, in words of 16 bytes: the compiler splits stores where it counts elements.
template <class X> KF_INLINE X* vector_at(X* p, int i) {
  return (X*)((uint4*)p + i * int(VEC * sizeof(X) / sizeof(uint4)));
}
