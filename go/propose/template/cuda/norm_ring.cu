// Layer, group or (RMS) root-mean-square norm of rows that are few and large: teams of multiprocessors have several rows each in rings of shared memory.
//
// Idea: one read and one write, with bytes on their way in both directions all the time. A cooperative launch has one block a multiprocessor; the blocks of a
// team share each of its rows, DEPTH at once: one is written while the next is known and those behind it come in, asynchronously. In turn k
//
//	workers   wait for their vectors of row k and add them up | barrier | write row k - 1, and ask for row k - 1 + DEPTH where each vector was
//	clerk     joins what the team told of row k - 1           | barrier | tells the team of row k
//
// so that what a block tells has the time of a whole turn to reach the others. Threads look at no slots but their own, and there is one barrier a turn.
// Bound: copy of the bytes. 32 groups of 8.4 MB on an H200: a turn moves 2 x 64 KB a multiprocessor, 4.0 us at 4.2 TB/s; its instructions take 2.0 us
// (800 a warp, of 17), and of two rows in flight (128 KB) 32 KB would do for that rate. Predicted: 32 turns and 8 us at both ends, 138 us;
// measured: not below 201 us, what group_norm_split takes there with two reads. Not understood yet.
// Works for: contiguous rows of whole vectors, DEPTH of which fit the shared memory of a team; weight and bias of any floating type or absent; no double. A
// group of a group norm is a row.
// Parameters the tree may change: THREADS (workers), UNROLL (vectors that are written together), DEPTH, TEAMS (at most), ONCE (outputs do not stay in the L2).
// Numerics: as norm_split, with moments of up to BATCH vectors, joined in the order of the pieces.

// @include rows.cuh

// @include affine.cuh

// @include moments.cuh

// @include moments_batch.cuh

// @include pieces.cuh

struct Found { A mean, rstd; };
// As Join, without a division: a clerk has a dozen joins one after the other. The share may be off by 2^-22, and so is what the mean moves by.
struct NearJoin {
  KF_INLINE Moments operator()(const Moments& a, const Moments& b) const {
    if (a.count == 0 || b.count == 0) return b.count == 0 ? a : b;
    const A count = a.count + b.count, apart = b.mean - a.mean;
    const A share = a.count == b.count ? A(0.5) : b.count * kf_fast_reciprocal(count);
    return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * (a.count * share)};
  }
};
// The moments of a warp, whose lanes have `count` elements of its `all` each: first the mean, by what the lanes' own ones lie apart, then the squares about it.
// Half the instructions and a quarter of the time of five joins; counts are the same in every turn.
struct Lanes {
  A count, all, share;
  KF_INLINE explicit Lanes(int mine) : count(A(mine)), all(kf_warp_fold(A(mine), kf_sum_of())), share(all > 0 ? count * kf_fast_reciprocal(all) : A(0)) {}
  KF_INLINE Moments operator()(const Moments& m) const {
    const A one = kf_shuffle(m.mean, 0), mean = one + kf_warp_fold((m.mean - one) * share, kf_sum_of());
    const A apart = count > 0 ? m.mean - mean : A(0);  // of a lane without elements the square may be infinite, and 0 times that
    return {all, mean, kf_warp_fold(m.squares + apart * apart * count, kf_sum_of())};
  }
};
// Calls f(i, together) for the first `count` vectors of a thread: N of them together, in the end fewer.
template <int N, class F> KF_INLINE void vectors_of(int count, F f, int i = 0) {
  for (; i + N <= count; i += N) f(i, Together<N>());
  if constexpr (N > 1) vectors_of<N / 2>(count, f, i);
}
// TWO: planes are no shorter than pieces, so that a piece lies in one channel or two, the second one from element `border` of the row on. What they make of
// (x - mean) * rstd are two numbers each, of a turn and not of a vector.
struct Ends {
  A scale[2], shift[2];
  int border;
};
template <class P> KF_INLINE A parameter(const P* p, int channel, A missing) {
  if constexpr (kf_same<P, void>) return missing; else return A(kf_of(p[channel]));
}
template <class W, class B> KF_INLINE Ends ends_of(const W* weight, const B* bias, int start, int first, int channels, const kf_divider<INDEX>& area) {
  const int before = int(area.quotient(start)), next = first + kf_least(before + 1, channels - 1);
  return {{parameter(weight, first + before, A(1)), parameter(weight, next, A(1))},
          {parameter(bias, first + before, A(0)), parameter(bias, next, A(0))}, (before + 1) * int(area.size)};
}
KF_INLINE kf_vec<A, VEC> scaled(const kf_vec<A, VEC>& v, A mean, const Ends& ends, int at) {
  const bool second = at >= ends.border;
  const A scale = second ? ends.scale[1] : ends.scale[0], shift = second ? ends.shift[1] : ends.shift[0];
  kf_vec<A, VEC> y;
#pragma unroll
  for (int e = 0; e < VEC; ++e) {
    y[e] = (v[e] - mean) * scale;
    if constexpr (!kf_same<BIAS, void>) y[e] += shift;
  }
  return y;
}
// What a block tells of a piece, whose count all know: the mean, and the squares with their sign set. It is never zero, and all in one word.
KF_INLINE uint64_t told(const Moments& m) { return uint64_t(__float_as_uint(m.mean)) << 32 | __float_as_uint(m.squares) | 0x80000000u; }
KF_INLINE Moments heard(uint64_t word, int count) { return {A(count), __uint_as_float(uint32_t(word >> 32)), __uint_as_float(uint32_t(word) & 0x7fffffffu)}; }
// The moments of a row whose pieces' words these are, by a warp. Several words of a lane are asked for at once.
KF_INLINE Moments joined_row(const uint64_t* words, int pieces, int length) {
  constexpr int ASKED = 5;
  Moments m = {0, 0, 0};
  for (int first = threadIdx.x % 32; first < pieces; first += 32 * ASKED) {
    uint64_t word[ASKED];
    for (bool all = false; !all;) {
      all = true;
#pragma unroll
      for (int u = 0; u < ASKED; ++u) word[u] = first + 32 * u < pieces ? kf_seen(words + first + 32 * u) : 1;
#pragma unroll
      for (int u = 0; u < ASKED; ++u) all &= word[u] != 0;
    }
#pragma unroll
    for (int u = 0; u < ASKED; ++u)
      if (first + 32 * u < pieces) m = NearJoin()(m, heard(word[u], piece_of(0, first + 32 * u, pieces, length).count * VEC));
  }
  return of_threads(m, [](auto x, auto fold) { return kf_warp_fold(x, fold); }, NearJoin());
}

KF_KERNEL(THREADS + 32, 1) void kf_main(
// @parameters
) {
  __shared__ Moments of_warp[2][THREADS / 32];
  __shared__ Found found[2];
  const int t = threadIdx.x, n = int(length), team = blockIdx.x / int(pieces), index = int(blockIdx.x) - team * int(pieces);
  const int teams = int(gridDim.x) / int(pieces), turns = (int(rows) - team + teams - 1) / teams;
  if (t >= THREADS) {  // the clerk: a warp
    const int lane = t - THREADS;
    for (int k = 0; k <= turns; ++k) {
      const INDEX row = team + (k - 1) * teams;
      if (k > 0) {
        const Moments m = joined_row(words + int64_t(row) * pieces, int(pieces), n);
        const A rstd = rstd_of(m, A(n), eps);
        if (lane == 0) {
          found[(k - 1) % 2] = {m.mean, rstd};
          if (index == 0) {
            if constexpr (!RMS) mean_out[row] = kf_to<STAT>(m.mean);
            rstd_out[row] = kf_to<STAT>(rstd);
          }
        }
      }
      __syncthreads();
      if (k == turns) return;
      const Moments m = kf_warp_fold(lane < THREADS / 32 ? of_warp[k % 2][lane] : Moments{0, 0, 0}, NearJoin());
      if (lane == 0) kf_post(words + int64_t(row + teams) * pieces + index, told(m));
    }
  }
  const bool aligned = aligned_tensor<VEC>(x) && aligned_tensor<VEC>(out) && aligned_parameter(weight) && aligned_parameter(bias);
  const Piece piece = piece_of(team, index, int(pieces), n);
  const int mine = (piece.count - t + THREADS - 1) / THREADS;  // vectors of this thread
  const Lanes lanes(mine * VEC);
  auto data_of = [=](int k) { return piece.data + int64_t(k) * teams * n; };
  auto place_of = [](int k, int i) -> uint4& { return slot(k % DEPTH * ITEMS + i); };
  auto ask = [=](int k, int i) {
    const IN* p = vector_at(x + data_of(k), i * THREADS + t);
    if (!SHIFTED || aligned) kf_copy_ahead(&place_of(k, i), (const uint4*)p); else place_of(k, i) = fetch(p, false);
  };
  auto ask_row = [=](int k) {
    if (k < turns)
      for (int i = 0; i < mine; ++i) ask(k, i);
    kf_end_group();
  };
  for (int k = 0; k < DEPTH - 1; ++k) ask_row(k);
  for (int k = 0; k <= turns; ++k) {
    const INDEX row = team + (k > 0 ? k - 1 : 0) * teams;  // that is written
// @channel
    Ends ends = {};
    if constexpr (TWO) ends = ends_of(weight, bias, piece.first, first, int(CHANNELS), area);
    if (k < turns) {
      kf_wait_groups<DEPTH - 2>();  // for row k
      Moments m = {0, 0, 0};
      vectors_of<BATCH>(mine, [&](int i, auto together) {
        uint4 v[together.count];
#pragma unroll
        for (int u = 0; u < together.count; ++u) v[u] = place_of(k, i + u);
        add<together.count>(m, v, NearJoin());
      });
      m = lanes(m);
      if (t % 32 == 0) of_warp[k % 2][t / 32] = m;
    }
    __syncthreads();
    if (k == 0) {
      ask_row(DEPTH - 1);
      continue;
    }
    const A mean = found[(k - 1) % 2].mean, rstd = found[(k - 1) % 2].rstd;
    ends.scale[0] *= rstd;
    ends.scale[1] *= rstd;
    T* o = out + data_of(k - 1);
    const int next = k - 1 + DEPTH;
    vectors_of<UNROLL>(mine, [&](int i, auto together) {
      uint4 v[together.count];
#pragma unroll
      for (int u = 0; u < together.count; ++u) v[u] = place_of(k - 1, i + u);
      kf_vec<A, VEC> y[together.count];  // all before the first is written: weights may not be asked for behind a store
#pragma unroll
      for (int u = 0; u < together.count; ++u) {
        const int at = piece.first + ((i + u) * THREADS + t) * VEC;
        if constexpr (TWO) y[u] = scaled(elements_of(v[u]), mean, ends, at);
        else y[u] = normed<false>(elements_of(v[u]), mean, rstd, weight, bias, at, first, area, aligned);
      }
#pragma unroll
      for (int u = 0; u < together.count; ++u) put<VEC, ONCE>(vector_at(o, (i + u) * THREADS + t), y[u], aligned);
      if (next < turns) {
#pragma unroll
        for (int u = 0; u < together.count; ++u) ask(next, i + u);
      }
    });
    kf_end_group();
  }
}
