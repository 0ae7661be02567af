// Layer, group or (RMS) root-mean-square norm of long rows: a block, or the blocks of a cluster, keep a row on the chip.
//
// Idea: one read and one write. The elements stay as they came, in registers and in shared memory; the blocks of a cluster hand each other the
// moments of their pieces through distributed shared memory. Bound: copy of the bytes.
// Works for: contiguous rows that fit CLUSTER multiprocessors, of any length; weight and bias of any floating type or absent. A group of a group
// norm is a row. Clusters: compute capability 9.0 or later.
// Parameters the tree may change: THREADS, CLUSTER (blocks of a row), KEEP (KiB of a block in registers), UNROLL (vectors in flight), ONCE (outputs
// do not stay in the L2).
// Numerics: as norm_split, with moments of BATCH vectors.

// @include rows.cuh

// @include affine.cuh

// @include moments.cuh

// @include moments_batch.cuh

// @include kept.cuh

// @include cluster.cuh

KF_KERNEL(THREADS, 1) void kf_main(
// @parameters
) {
  const int t = threadIdx.x, n = int(length), index = blockIdx.x % CLUSTER;
  const INDEX row = INDEX(blockIdx.x) / CLUSTER;
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out) && aligned_parameter(weight) && aligned_parameter(bias);
  const Piece piece = piece_of(row, index, CLUSTER, n);
  cluster_begin();
  uint4 kept[ITEMS];
  Moments m = {0, 0, 0};
  A spare[1] = {0};
  if (ODD && piece.spare >= 0) {
    spare[0] = kf_of(x[int64_t(row) * n + piece.spare]);
    m = sums_of<1>(spare);
  }
  m = joined<THREADS>(read_piece(piece, x, aligned, kept, Join(), m));
#if FEW && CLUSTER > 1
  const kf_shuffled<Moments>* inbox = gathered(m);
  m = of_threads(t % 32 < CLUSTER ? inbox[t % 32].value : Moments{0, 0, 0}, [](auto x, auto fold) { return kf_warp_fold(x, fold); });
#else
  m = exchanged(m, Join());
#endif
  const A mean = m.mean, rstd = rstd_of(m, A(n), eps);
  if (index == 0 && t == 0) {
    if constexpr (!RMS) mean_out[row] = kf_to<STAT>(mean);
    rstd_out[row] = kf_to<STAT>(rstd);
  }
// @channel
  T* o = out + piece.data;
  auto finish = [&](int i, const uint4& v) {
    const int at = i * THREADS + t;
    put<VEC, ONCE>(vector_at(o, at), normed<ODD>(elements_of(v), mean, rstd, weight, bias, piece.first + at * VEC, first, area, aligned), aligned);
  };
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i * THREADS + t < piece.count) finish(i, kept[i]);
  slots_of(piece.count, [&](int s, auto together) {
#pragma unroll
    for (int u = 0; u < together.count; ++u) finish(ITEMS + s + u, slot(s + u));
  });
  if (ODD && piece.spare >= 0) out[int64_t(row) * n + piece.spare] = kf_to<T>(normed_one(spare[0], mean, rstd, weight, bias, piece.spare, first, area));
}
