// @include pieces.cuh

// Each thread keeps its own vectors of a piece, 16 bytes as they came, the first ITEMS in registers and the others in slots of shared memory, where no other
// thread looks.
// Calls f(s, together) for this thread's vectors in slots, of a piece of `count`: UNROLL or BATCH of them from slot s on, then one by one. Their
// number is together.count, a constant.
template <class F> KF_INLINE void slots_of(int count, F f) {
  const int mine = (count - int(threadIdx.x) + THREADS - 1) / THREADS - ITEMS;  // vectors of this thread in slots
  int s = 0;
  for (; s + UNROLL <= mine; s += UNROLL) f(s, Together<UNROLL>());
  if constexpr (UNROLL > BATCH)
    if (s + BATCH <= mine) f(s, Together<BATCH>()), s += BATCH;
  for (; s < mine; ++s) f(s, Together<1>());
}
// What registers keep, added up.
template <class Sum, class Fold> KF_INLINE Sum add_kept(const Piece& piece, const uint4 (&kept)[ITEMS], Fold fold, Sum all) {
  const int t = threadIdx.x;
#pragma unroll
  for (int i = 0; i < ITEMS; i += BATCH) {
    if ((i + BATCH - 1) * THREADS + t < piece.count) {
      add<BATCH>(all, kept + i, fold);
    } else {
#pragma unroll
      for (int u = 0; u < BATCH; ++u)
        if ((i + u) * THREADS + t < piece.count) add<1>(all, kept + i + u, fold);
    }
  }
  return all;
}
// Reads a piece: what goes to registers first, all of it on its way while the slots are filled.
template <class Sum, class Fold> KF_INLINE Sum read_piece(const Piece& piece, const IN* x, bool aligned, uint4 (&kept)[ITEMS], Fold fold, Sum all) {
  const IN* p = x + piece.data;
  const int t = threadIdx.x;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i * THREADS + t < piece.count) kept[i] = fetch(vector_at(p, i * THREADS + t), aligned);
  slots_of(piece.count, [&](int s, auto together) {
    constexpr int N = decltype(together)::count;
    uint4 v[N];
#pragma unroll
    for (int u = 0; u < N; ++u) v[u] = fetch(vector_at(p, (ITEMS + s + u) * THREADS + t), aligned);
#pragma unroll
    for (int u = 0; u < N; ++u) slot(s + u) = v[u];
    add<N>(all, v, fold);
  });
  return add_kept(piece, kept, fold, all);
}
