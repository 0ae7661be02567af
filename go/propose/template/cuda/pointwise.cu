// Pointwise: one output element from the elements of 1 to 3 operands, with broadcasting and any strides.
//
// Idea: dims are joined so that most calls are one long row. A thread takes UNROLL vectors of VEC elements, THREADS vectors apart, and loads
// all of them before it computes: 16-byte accesses, several in flight. An operand that repeats along the row is one element a vector; one
// that repeats between rows (a bias) stays in the caches. Bound: copy of the bytes.
// Works for: any sizes and strides; operands that are not side by side are read one by one (VEC 1). The output may be exactly an operand.
// Parameters the tree may change: VEC, THREADS, UNROLL, WAVES (in the spec: blocks a multiprocessor gets in all, 0: one for each tile),
// ONCE (operands and output pass the caches by), FAST (half types: elementary functions of the hardware).
// Numerics: the operation below, in C, rounded once to OUT.

// @include walk.cuh
// @include functions.cuh

// Constants of the call, by the bits of their doubles.
KF_INLINE C exact(uint64_t bits) { return C(__longlong_as_double(bits)); }
// A value's way through memory.
KF_INLINE C stored(C x) { return C(kf_of(kf_to<OUT>(x))); }
// An operand's element in the arithmetic type; VIA is the type that eager converts it to first.
template <class VIA, class T> KF_INLINE C one(T x) {
  if constexpr (kf_same<VIA, T>) return C(kf_of(x));
  else return C(kf_of(kf_to<VIA>(kf_of(x))));
}

// @operation

// @include stream.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  Operands on;
// @walks
  all(on, vectors, elements, count);
}
