// Cat: joins tensors along a dim. One launch for all of them: a row of blocks for each input.
//
// Idea: each input is a copy into its slice of the output, visited as by pointwise: dims joined, vectors of VEC elements, UNROLL of them in flight.
// Blocks past the end of a short input end at once. Bound: copy of the bytes.
// Works for: any sizes and strides; where rows are not whole vectors, VEC is 1.
// Parameters the tree may change: VEC, THREADS, UNROLL, WAVES (in the spec), ONCE.
// Numerics: exact; elements are moved as bits.

// @include walk.cuh

KF_INLINE OUT op(IN0 a) { return a; }

// @include stream.cuh

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  Operands on;
  Walk<2, DIMS> vectors, elements;
  INDEX count;
  switch (blockIdx.y) {
// @walks
  }
  all(on, vectors, elements, count);
}
