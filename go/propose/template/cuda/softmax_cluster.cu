// Softmax or (LOG) log-softmax along long contiguous rows: a block, or the blocks of a cluster, keep a row on the chip.
//
// Idea: one read and one write. The elements stay as they came, in registers and in shared memory; the blocks of a cluster hand each other the
// maximum and the sum of their pieces through distributed shared memory; of float32 one after the other, so that each exponential is made once.
// Bound: copy of the bytes; of half types two exponentials an element.
// Works for: rows that fit CLUSTER multiprocessors, of any length. Clusters: compute capability 9.0 or later.
// Parameters the tree may change: THREADS, CLUSTER (blocks of a row), KEEP (KiB of a block in registers), UNROLL (vectors in flight), ONCE (outputs
// do not stay in the L2). BLOCKS of a multiprocessor at once follow from them: two need 64 registers a thread.
// Numerics: as softmax_split.

// @include rows.cuh

// @include softmax.cuh

// @include softmax_sums.cuh

// @include kept.cuh

// @include cluster.cuh

// Makes the exponentials of a piece where its elements are, and returns the sum of the whole row's.
KF_INLINE A sum_apart(const Piece& piece, A base, uint4 (&kept)[ITEMS], A& spare) {
  auto exponentials = [&](uint4& words) {
    kf_vec<A, VEC> v = elements_of(words);
    A part[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) v[e] = part[e] = power(v[e] - base);
    words = *(const uint4*)&v;
    return total<VEC>(part);
  };
  A sum = 0;
  if (ODD && piece.spare >= 0) sum = spare = power(spare - base);
#pragma unroll
  for (int i = 0; i < ITEMS; i += BATCH) {
    A part[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) part[u] = (i + u) * THREADS + int(threadIdx.x) < piece.count ? exponentials(kept[i + u]) : A(0);
    sum += total<BATCH>(part);
  }
  slots_of(piece.count, [&](int s, auto together) {
    constexpr int N = decltype(together)::count;
    A part[N];
#pragma unroll
    for (int u = 0; u < N; ++u) part[u] = exponentials(slot(s + u));
    sum += total<N>(part);
  });
  cluster_begin();
  return exchanged(kf_block_fold<THREADS>(sum, kf_sum_of()), kf_sum_of());
}
KF_KERNEL(THREADS, BLOCKS) void kf_main(
// @parameters
) {
  const int t = threadIdx.x, n = int(length), index = blockIdx.x % CLUSTER;
  const INDEX row = INDEX(blockIdx.x) / CLUSTER;
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out);
  const Piece piece = piece_of(row, index, CLUSTER, n);
  cluster_begin();
  uint4 kept[ITEMS];
  Part all = nothing();
  A spare[1] = {0};
  if (ODD && piece.spare >= 0) {
    spare[0] = kf_of(x[int64_t(row) * n + piece.spare]);
    all = sums_of<1>(spare);
  }
  if constexpr (APART) {
    all = exchanged(kf_block_fold<THREADS>(read_piece(piece, x, aligned, kept, Highest(), all), Highest()), Highest());
    all.sum = sum_apart(piece, base_of(all.most), kept, spare[0]);
  } else {
    all = exchanged(kf_shuffle(kf_block_fold<THREADS>(read_piece(piece, x, aligned, kept, Join(), all), Join()), 0), Join());
  }
  const Finish finish(all);  // one answer of all threads: the two orders of a join differ in the last bit
  OUT* o = out + piece.data;
  auto write = [&](int i, const uint4& v) {
    kf_vec<A, VEC> y = elements_of(v);
#pragma unroll
    for (int e = 0; e < VEC; ++e) y[e] = APART ? finish.of_power(y[e]) : finish.of_element(y[e]);
    put<VEC, ONCE>(vector_at(o, i * THREADS + t), y, aligned);
  };
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i * THREADS + t < piece.count) write(i, kept[i]);
  slots_of(piece.count, [&](int s, auto together) {
#pragma unroll
    for (int u = 0; u < together.count; ++u) write(ITEMS + s + u, slot(s + u));
  });
  if (ODD && piece.spare >= 0) out[int64_t(row) * n + piece.spare] = kf_to<OUT>(APART ? finish.of_power(spare[0]) : finish.of_element(spare[0]));
}
