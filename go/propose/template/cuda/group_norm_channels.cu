// Group norm where channels are contiguous.
//
// Idea: kf_gather takes the moments of each VEC channels over a piece of a sample's positions, vectors across channels; kf_join joins the
// pieces and channels of a group; kf_main applies them, each thread to VEC channels whose terms it keeps. Backwards, for what the L2 still has.
// Bound: one more reading than a copy, less by the L2.
// Works for: dense tensors of any sizes; VEC divides the channels of a group. Weight and bias of any floating type or absent.
// Parameters the tree may change: THREADS, UNROLL (positions in flight), WAVES (blocks a multiprocessor), VEC (elements of an access).
// Numerics: as norm_split.

// @include rows.cuh

// @include moments.cuh

KF_INLINE float inverse_root(float x) { return rsqrtf(x); }
KF_INLINE double inverse_root(double x) { return rsqrt(x); }

// A block's share: `down` positions at a time, `across` vectors of channels side by side; threads beyond the last whole position rest.
struct Tile {
  int across, down, column, row;
  KF_INLINE Tile(int columns) : across(kf_least(columns, THREADS)), down(THREADS / across), column(threadIdx.x % across), row(threadIdx.x / across) {}
};
// The positions of a sample that a block works on.
struct Piece { int sample, from, to; };
KF_INLINE Piece piece_of(int block, int pieces, int area) {
  const int sample = block / pieces, step = (area + pieces - 1) / pieces, from = kf_least((block - sample * pieces) * step, area);
  return {sample, from, kf_least(from + step, area)};
}
template <int U> KF_INLINE void load(const T* p, int64_t step, bool aligned, kf_vec<A, VEC> (&v)[U]) {
#pragma unroll
  for (int u = 0; u < U; ++u) v[u] = get<VEC>(p + u * step, aligned);
}
template <int U> KF_INLINE Moments batch(const T* p, int64_t step, bool aligned) {
  kf_vec<A, VEC> v[U];
  load<U>(p, step, aligned, v);
  A flat[U * VEC];
#pragma unroll
  for (int i = 0; i < U * VEC; ++i) flat[i] = v[i / VEC][i % VEC];
  return moments_of<U * VEC>(flat);
}
// parts: for each block, the moments of every vector of channels.
KF_KERNEL(THREADS) void kf_gather(
// @gather
) {
  __shared__ Moments kept[THREADS];
  const int columns = channels / VEC;
  const Tile tile(columns);
  const Piece piece = piece_of(blockIdx.x, pieces, area);
  const bool aligned = kf_aligned<VEC>(x);
  const int64_t step = int64_t(tile.down) * channels;
  for (int base = 0; base < columns; base += tile.across) {
    const int column = base + tile.column;
    Moments m = {0, 0, 0};
    if (column < columns && tile.row < tile.down) {
      const T* p = x + (int64_t(piece.sample) * area + piece.from + tile.row) * channels + column * VEC;
      int i = piece.from + tile.row;
      for (; i + (UNROLL - 1) * tile.down < piece.to; i += UNROLL * tile.down, p += UNROLL * step) m = Join()(m, batch<UNROLL>(p, step, aligned));
      for (; i < piece.to; i += tile.down, p += step) m = Join()(m, batch<1>(p, step, aligned));
    }
    kept[threadIdx.x] = m;
    __syncthreads();
    int rows = 1;
    while (rows < tile.down) rows *= 2;
    for (rows /= 2; rows > 0; rows /= 2) {
      if (tile.row < rows && tile.row + rows < tile.down) kept[threadIdx.x] = Join()(kept[threadIdx.x], kept[threadIdx.x + rows * tile.across]);
      __syncthreads();
    }
    if (tile.row == 0 && column < columns) parts[int64_t(blockIdx.x) * columns + column] = kept[threadIdx.x];
    __syncthreads();
  }
}
// A block for each sample and group. statistics: mean and 1 / deviation.
KF_KERNEL(128) void kf_join(
// @join
) {
  const int sample = blockIdx.x / groups, group = blockIdx.x - sample * groups, columns = channels / VEC, mine = columns / groups;
  Moments m = {0, 0, 0};
  for (int i = threadIdx.x; i < pieces * mine; i += 128)
    m = Join()(m, parts[(int64_t(sample) * pieces + i / mine) * columns + group * mine + i % mine]);
  m = joined<128>(m);
  if (threadIdx.x > 0) return;
  const A rstd = inverse_root(m.squares / m.count + eps);
  statistics[2 * blockIdx.x] = m.mean;
  statistics[2 * blockIdx.x + 1] = rstd;
  mean_out[blockIdx.x] = kf_to<STAT>(m.mean);
  rstd_out[blockIdx.x] = kf_to<STAT>(rstd);
}
template <class P> KF_INLINE A parameter(const P* p, int channel, A missing) {
  if constexpr (kf_same<P, void>) return missing; else return A(kf_of(p[channel]));
}
KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
  const int columns = channels / VEC, each = channels / groups;
  const Tile tile(columns);
  const Piece piece = piece_of(gridDim.x - 1 - blockIdx.x, pieces, area);
  const bool aligned = kf_aligned<VEC>(x) && kf_aligned<VEC>(out);
  const int64_t step = int64_t(tile.down) * channels;
  if (tile.row >= tile.down) return;
  for (int column = tile.column; column < columns; column += tile.across) {
    const int channel = column * VEC;
    const A* s = statistics + 2 * (piece.sample * groups + channel / each);
    const A mean = s[0], rstd = s[1];
    A scale[VEC], shift[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      scale[e] = rstd * parameter(weight, channel + e, A(1));
      shift[e] = parameter(bias, channel + e, A(0));
    }
    const int64_t from = (int64_t(piece.sample) * area + piece.from + tile.row) * channels + channel;
    const T* p = x + from;
    T* o = out + from;
    auto finish = [&](T* to, kf_vec<A, VEC> v) {
#pragma unroll
      for (int e = 0; e < VEC; ++e) v[e] = (v[e] - mean) * scale[e] + shift[e];
      put<VEC>(to, v, aligned);
    };
    int i = piece.from + tile.row;
    for (; i + (UNROLL - 1) * tile.down < piece.to; i += UNROLL * tile.down, p += UNROLL * step, o += UNROLL * step) {
      kf_vec<A, VEC> v[UNROLL];
      load<UNROLL>(p, step, aligned, v);
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) finish(o + u * step, v[u]);
    }
    for (; i < piece.to; i += tile.down, p += step, o += step) finish(o, get<VEC>(p, aligned));
  }
}
