// Layer, group or (RMS) root-mean-square norm of rows that are few and large: a team of multiprocessors keeps a row on the chip.
//
// Idea: one read and one write. A cooperative launch has one block a multiprocessor; the blocks of a team keep a row between them, in registers and
// in shared memory, tell each other the moments of their pieces through a workspace, and wait for each other's word. Each vector that is written
// makes room for one of the team's next row; what goes to registers of it is on its way while the team waits. Bound: copy of the bytes.
// Works for: contiguous rows of whole vectors that fit the multiprocessors; weight and bias of any floating type or absent. A group of a group norm is
// a row.
// Parameters the tree may change: THREADS, UNROLL (vectors in flight), TEAMS (at most), ONCE (outputs do not stay in
// the L2).
// Numerics: as norm_split, with moments of BATCH vectors, joined in the order of the pieces.

// @include rows.cuh

// @include affine.cuh

// @include moments.cuh

// @include moments_batch.cuh

// @include kept.cuh

KF_KERNEL(THREADS, 1) void kf_main(
// @parameters
) {
  const int t = threadIdx.x, n = int(length), team = blockIdx.x / int(pieces), index = int(blockIdx.x) - team * int(pieces);
  const int teams = int(gridDim.x) / int(pieces);
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out) && aligned_parameter(weight) && aligned_parameter(bias);
  INDEX row = team;
  Piece piece = piece_of(row, index, int(pieces), n);
  uint4 kept[ITEMS], ahead[ITEMS];
  Moments m = read_piece(piece, x, aligned, kept, Join(), Moments{0, 0, 0});
  for (;;) {
    m = joined<THREADS>(m);
    const int64_t place = int64_t(row) * pieces;
    if (t == 0) {
      parts[place + index] = m;
      kf_post(words + place + index, 1);
    }
    const bool more = row + teams < rows;
    const int64_t next = piece.data + int64_t(more ? teams : 0) * n;
    if (more) {
#pragma unroll
      for (int i = 0; i < ITEMS; ++i)
        if (i * THREADS + t < piece.count) ahead[i] = fetch(vector_at(x + next, i * THREADS + t), aligned);
    }
    m = {0, 0, 0};
    for (int k = t; k < pieces; k += THREADS) {
      while (kf_seen(words + place + k) == 0) {}
      m = Join()(m, parts[place + k]);
    }
    m = joined<THREADS>(m);
    const A mean = m.mean, rstd = rstd_of(m, A(n), eps);
    if (index == 0 && t == 0) {
      if constexpr (!RMS) mean_out[row] = kf_to<STAT>(mean);
      rstd_out[row] = kf_to<STAT>(rstd);
    }
// @channel
    T* o = out + piece.data;
    auto finish = [&](int at, const uint4& v) {
      put<VEC, ONCE>(vector_at(o, at), normed<false>(elements_of(v), mean, rstd, weight, bias, piece.first + at * VEC, first, area, aligned), aligned);
    };
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i * THREADS + t < piece.count) finish(i * THREADS + t, kept[i]);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) kept[i] = ahead[i];
    m = {0, 0, 0};
    slots_of(piece.count, [&](int s, auto together) {
      constexpr int N = decltype(together)::count;
      uint4 v[N];
      if (more) {
#pragma unroll
        for (int u = 0; u < N; ++u) v[u] = fetch(vector_at(x + next, (ITEMS + s + u) * THREADS + t), aligned);
      }
#pragma unroll
      for (int u = 0; u < N; ++u) finish((ITEMS + s + u) * THREADS + t, slot(s + u));
      if (more) {
#pragma unroll
        for (int u = 0; u < N; ++u) slot(s + u) = v[u];
        add<N>(m, v, Join());
      }
    });
    if (!more) return;
    m = add_kept(piece, kept, Join(), m);
    row += teams;
    piece.data = next;
  }
}
