// Group norm of tensors whose channels lie inside: the outputs are planes (PLANES), or lie as the input does.
//
// Idea: lines of channels are read whole. kf_gather: a thread keeps one vector of a line, block by block down the pixels, with moments for each group that
// it may meet; kf_join makes a mean and a deviation of a sample's groups; kf_main reads the lines again, backwards, so that what was read last is still in the L2,
// and writes squares of pixels by channels that turn in shared memory in words of 4 bytes, with 16 bytes on both sides (transpose_packed). Bound: one more
// reading than a copy, less by the L2.
// Works for: lines of whole 16-byte vectors; any number of channels in a group; planes of any size (ODD: they begin anywhere, and are written element by
// element); with statistics or without (STATISTICS); 2-byte and 4-byte types.
// Parameters the tree may change: THREADS, UNROLL (vectors in flight), WAVES (blocks a multiprocessor that gather), TILE.
// Numerics: float. Moments of UNROLL vectors about their own mean, then joined; (x - mean) * rstd * weight + bias.

// @include rows.cuh

// @include moments.cuh

constexpr int VEC = 16 / sizeof(IN), PAIR = 4 / sizeof(IN);
// The longest run of channels that no group's border cuts, wherever a vector begins: the largest power of two in DEPTH. Runs of a vector.
constexpr int RUN = DEPTH & -DEPTH, EACH = RUN < VEC ? RUN : VEC, CELLS = VEC / EACH;
constexpr int LINE = CHANNELS / VEC, LINES = THREADS / LINE, USED = LINES * LINE, GROUPS = CHANNELS / DEPTH;
struct Moment { A mean, rstd; };
struct Cell { A count, mean, squares; };
template <int N> struct Many { static constexpr int value = N; };

KF_KERNEL(THREADS) void kf_gather(
// @gather
) {
  __shared__ Cell cells[USED * CELLS];
  const INDEX sample = INDEX(blockIdx.x) / pieces, piece = INDEX(blockIdx.x) - sample * pieces;
  const INDEX step = (area + pieces - 1) / pieces, from = piece * step, to = from + step < area ? from + step : area;
  const bool aligned = aligned_tensor<VEC>(x);
  const int column = threadIdx.x % LINE;
  Moments m[CELLS];
#pragma unroll
  for (int k = 0; k < CELLS; ++k) m[k] = {0, 0, 0};
  if (threadIdx.x < USED) {
    const T* p = x + int64_t(sample) * area * CHANNELS + column * VEC;
    INDEX i = from + INDEX(threadIdx.x / LINE);
    auto take = [&](auto many) {
      constexpr int U = decltype(many)::value;
      A v[CELLS][U * EACH];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        const kf_vec<A, VEC> w = get<VEC>(p + int64_t(i + u * LINES) * CHANNELS, aligned);
#pragma unroll
        for (int e = 0; e < VEC; ++e) v[e / EACH][u * EACH + e % EACH] = w[e];
      }
#pragma unroll
      for (int k = 0; k < CELLS; ++k) m[k] = Join()(m[k], moments_of<U * EACH>(v[k]));
    };
    for (; i + (UNROLL - 1) * LINES < to; i += UNROLL * LINES) take(Many<UNROLL>());
    for (; i < to; i += LINES) take(Many<1>());
#pragma unroll
    for (int k = 0; k < CELLS; ++k) cells[(threadIdx.x / LINE) * (LINE * CELLS) + column * CELLS + k] = {m[k].count, m[k].mean, m[k].squares};
  }
  __syncthreads();
  constexpr int SHARE = DEPTH / EACH;  // cells of a line that are of one group
  for (int g = threadIdx.x; g < GROUPS; g += THREADS) {
    auto each = [&](auto take) {
      for (int line = 0; line < LINES; ++line)
        for (int k = 0; k < SHARE; ++k) {
          const Cell& cell = cells[line * (LINE * CELLS) + g * SHARE + k];
          take(Moments{cell.count, cell.mean, cell.squares});
        }
    };
    Moments all = {0, 0, 0};
    each([&](const Moments& m) { all = Join()(all, m); });
    if constexpr (sizeof(IN) == 4) {  // one after the other they round off as much as float32 shows: once more, about their mean
      About parts = {};
      each([&](const Moments& m) { parts = JoinAbout()(parts, about(m, all.mean)); });
      all = again(all, parts);
    }
    parts[int64_t(blockIdx.x) * GROUPS + g] = all;
  }
}
// A warp joins the pieces of a sample's group.
KF_KERNEL(128) void kf_join(
// @join
) {
  const INDEX row = INDEX(blockIdx.x) * 4 + INDEX(threadIdx.x / 32);
  Moments m = {0, 0, 0};
  if (row < rows) {
    const INDEX sample = row / GROUPS, group = row - sample * GROUPS;
    for (INDEX k = threadIdx.x % 32; k < pieces; k += 32) m = Join()(m, parts[(int64_t(sample) * pieces + k) * GROUPS + group]);
  }
  m = of_threads(m, [](auto x, auto fold) { return kf_warp_fold<32>(x, fold); });
  if (row < rows && threadIdx.x % 32 == 0) {
    const A mean = m.mean, rstd = rstd_of(m, m.count, eps);
    moments[row] = {mean, rstd};
#if STATISTICS
    mean_out[row] = kf_to<STAT>(mean), rstd_out[row] = kf_to<STAT>(rstd);
#endif
  }
}
// What a channel's elements are normalised by.
struct Terms { A mean, rstd, weight, bias; };
// Where those of a square's channel lie: lanes at neighbouring vectors read them at once, and one place between vectors keeps them from the same banks.
KF_INLINE constexpr int place(int channel) { return channel + channel / VEC; }
KF_INLINE A on(const Terms& t, A x) { return (x - t.mean) * t.rstd * t.weight + t.bias; }
template <class P> KF_INLINE A parameter(const P* p, int channel, A missing) {
  if constexpr (kf_same<P, void>) return missing; else return A(kf_of(p[channel]));
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  __shared__ Terms terms[TILE + TILE / VEC];
  const bool aligned = aligned_tensor<VEC>(x), aligned_out = aligned_tensor<VEC>(out);
  constexpr int WIDE = (CHANNELS + TILE - 1) / TILE;  // squares of a line
  const INDEX high = (area + TILE - 1) / TILE;
  const INDEX square = squares - 1 - INDEX(blockIdx.x);  // backwards
  const INDEX strip = square / WIDE;
  const int b0 = int(square - strip * WIDE) * TILE;
  const INDEX sample = strip / high, a0 = (strip - sample * high) * TILE;
  for (int j = threadIdx.x; j < TILE; j += THREADS)
    if (b0 + j < CHANNELS) {
      const Moment of = moments[sample * GROUPS + (b0 + j) / DEPTH];
      terms[place(j)] = {of.mean, of.rstd, parameter(weight, b0 + j, A(1)), parameter(bias, b0 + j, A(0))};
    }
  const T* p = x + int64_t(sample) * area * CHANNELS;
  T* o = out + int64_t(sample) * area * CHANNELS;
#if PLANES
  constexpr int PITCH = TILE / PAIR + 1, INS = TILE / VEC * (TILE / PAIR), OUTS = TILE / VEC * TILE;
  constexpr int IN_EACH = (INS + THREADS - 1) / THREADS, OUT_EACH = (OUTS + THREADS - 1) / THREADS, LANES = 32 / VEC;
  __shared__ uint32_t turned[TILE * PITCH];
  // In: item i is PAIR pixels, VEC channels of each.
  kf_vec<A, VEC> v[IN_EACH][PAIR];
#pragma unroll
  for (int e = 0; e < IN_EACH; ++e) {
    const int i = e * THREADS + threadIdx.x, group = i / 32, rows = TILE / PAIR / VEC;
    const int a = (group % rows * VEC + i % 32 / LANES) * PAIR, b = (group / rows * LANES + i % LANES) * VEC;
    if (i < INS && a0 + a < area && b0 + b < CHANNELS) {
#pragma unroll
      for (int k = 0; k < PAIR; ++k) {
        const bool inside = !ODD || a0 + a + k < area;  // the last of an odd number of pixels is paired with itself
        v[e][k] = get<VEC>(p + int64_t(a0 + a + (inside ? k : 0)) * CHANNELS + (b0 + b), aligned);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < IN_EACH; ++e) {
    const int i = e * THREADS + threadIdx.x, group = i / 32, rows = TILE / PAIR / VEC;
    const int a = group % rows * VEC + i % 32 / LANES, b = (group / rows * LANES + i % LANES) * VEC;
    if (i < INS && a0 + a * PAIR < area && b0 + b < CHANNELS) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) {
        kf_words<IN, PAIR> w;
#pragma unroll
        for (int k = 0; k < PAIR; ++k) w.vec[k] = kf_to<IN>(on(terms[place(b) + j], v[e][k][j]));
        turned[(b + j) * PITCH + a] = w.words[0];
      }
    }
  }
  __syncthreads();
#if ODD
  // Out: item i is a pixel of a channel.
#pragma unroll 4
  for (int i = threadIdx.x; i < TILE * TILE; i += THREADS) {
    const int b = i / TILE, a = i % TILE;
    kf_words<IN, PAIR> w;
    w.words[0] = turned[b * PITCH + a / PAIR];
    if (a0 + a < area && b0 + b < CHANNELS) o[int64_t(b0 + b) * area + (a0 + a)] = a % PAIR == 0 ? w.vec[0] : w.vec[PAIR - 1];
  }
#else
  // Out: item i is a vector of pixels of a channel, which is 4 words.
#pragma unroll
  for (int e = 0; e < OUT_EACH; ++e) {
    constexpr int CHUNKS = TILE / VEC < 8 ? TILE / VEC : 8, PARTS = TILE / VEC / CHUNKS;
    const int i = e * THREADS + threadIdx.x, group = i / 32;
    const int chunk = group % PARTS * CHUNKS + i % CHUNKS, b = group / PARTS * (32 / CHUNKS) + i % 32 / CHUNKS;
    if (i < OUTS && a0 + chunk * VEC < area && b0 + b < CHANNELS) {
      union { kf_vec<IN, VEC> vec; uint32_t words[4]; } w;
#pragma unroll
      for (int k = 0; k < 4; ++k) w.words[k] = turned[b * PITCH + chunk * 4 + k];
      T* q = o + int64_t(b0 + b) * area + (a0 + chunk * VEC);
      if (aligned_out) {
        kf_store(q, w.vec);
      } else if constexpr (SHIFTED) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) q[j] = w.vec[j];
      }
    }
  }
#endif
#else
  __syncthreads();
  constexpr int ITEMS = TILE / VEC * TILE;
#pragma unroll 4
  for (int i = threadIdx.x; i < ITEMS; i += THREADS) {
    const int b = i % (TILE / VEC) * VEC;
    const INDEX a = a0 + i / (TILE / VEC);
    if (a >= area || b0 + b >= CHANNELS) continue;
    const int64_t at = int64_t(a) * CHANNELS + (b0 + b);
    kf_vec<A, VEC> w = get<VEC>(p + at, aligned);
#pragma unroll
    for (int j = 0; j < VEC; ++j) w[j] = on(terms[place(b) + j], w[j]);
    put<VEC>(o + at, w, aligned_out);
  }
#endif
}
