// Element: one output element from the elements of 1 to 3 operands, whatever their types; no floating-point arithmetic.
//
// Idea: as pointwise, but an element is an integer or plain bits, so that NaN payloads and zeros' signs survive, and the compiler vectorises
// the row. An operand that repeats along the row is read once. Bound: copy of the bytes.
// Works for: any sizes; sizes and strides are arguments. The output may be exactly an operand.
// Parameters the tree may change: GRAIN (least elements a thread takes; in the spec), UNROLL.
// Numerics: exact; integers wrap.

// @include walk.h

// @operation

constexpr int TIMES = UNROLL;  // macros mean nothing to a pragma

// How operand K meets a row: ROW has bit K where it is contiguous; where not, it repeats, or with ROW < 0 has the stride step[1 + K].
template <int ROW, int K, class T> KF_INLINE T take(const T* p, int64_t i, const int64_t* step, T repeated) {
  return ROW < 0 ? p[i * step[1 + K]] : ROW >> K & 1 ? p[i] : repeated;
}
template <int ROW> void rows(int64_t m, int64_t n, const int64_t* offset, const Loop<1 + ARITY>& loop, const kf_arg* args) {
  int64_t step[1 + ARITY];
  for (int k = 0; k <= ARITY; ++k) step[k] = loop.stride[k][loop.dims - 1];
  for (int64_t r = 0; r < m; ++r) {
    OUT* out = (OUT*)args[0].p + offset[0] + r * loop.next(0);
    const IN0* a = (const IN0*)args[1].p + offset[1] + r * loop.next(1);
    const IN0 a0 = *a;
#if ARITY > 1
    const IN1* b = (const IN1*)args[2].p + offset[2] + r * loop.next(2);
    const IN1 b0 = *b;
#endif
#if ARITY > 2
    const IN2* c = (const IN2*)args[3].p + offset[3] + r * loop.next(3);
    const IN2 c0 = *c;
#endif
#pragma GCC ivdep
#pragma GCC unroll TIMES
    for (int64_t i = 0; i < n; ++i)
#if ARITY == 1
      out[ROW < 0 ? i * step[0] : i] = op(take<ROW, 0>(a, i, step, a0));
#elif ARITY == 2
      out[ROW < 0 ? i * step[0] : i] = op(take<ROW, 0>(a, i, step, a0), take<ROW, 1>(b, i, step, b0));
#else
      out[ROW < 0 ? i * step[0] : i] = op(take<ROW, 0>(a, i, step, a0), take<ROW, 1>(b, i, step, b0), take<ROW, 2>(c, i, step, c0));
#endif
  }
}
template <int ROW> void pick(int shape, int64_t m, int64_t n, const int64_t* offset, const Loop<1 + ARITY>& loop, const kf_arg* args) {
  if (shape == ROW) return rows<ROW>(m, n, offset, loop, args);
  if constexpr (ROW >= 0) pick<ROW - 1>(shape, m, n, offset, loop, args);
}

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const kf_arg* size = args + 1 + ARITY;  // then the strides of the output and of each operand
  Loop<1 + ARITY> loop;
  for (int d = 0; d < DIMS; ++d) {
    int64_t stride[1 + ARITY];
    for (int k = 0; k <= ARITY; ++k) stride[k] = size[(1 + k) * DIMS + d].i;
    loop.dim(size[d].i, stride);
  }
  loop.join();
  int shape = loop.stride[0][loop.dims - 1] == 1 ? 0 : -1;
  for (int k = 0; k < ARITY; ++k) {
    int64_t step = loop.stride[1 + k][loop.dims - 1];
    shape = shape < 0 || (step != 0 && step != 1) ? -1 : shape | int(step) << k;
  }
  loop.run(begin, end, [&](int64_t m, int64_t n, const int64_t* offset) { pick<(1 << ARITY) - 1>(shape, m, n, offset, loop, args); });
}
