// Transpose in words: a copy of 2-byte or 4-byte elements whose output is contiguous along one dim (`across`) and whose source along another (`along`).
//
// Idea: as transpose, in whole vectors of 16 bytes on both sides, and shared memory in words of 4 bytes: 2-byte elements of two source rows are
// packed on the way in, so that a word lies along the output. Rows in shared memory are an odd number of words apart, and a warp takes 16 * VEC bytes of
// so many rows on the way in and 128 bytes of 4 rows on the way out, so that its words are in 32 banks both times. Bound: copy of the bytes.
// Works for: sizes and strides of whole vectors on both sides, elements of one size that are not converted.
// Parameters the tree may change: TILE, THREADS, ORDER (squares that follow one another: 0: along the output's rows, 1: along the
// source's), WAVES (in the spec).
// Numerics: bits are moved.

// @include walk.cuh

constexpr int PAIR = 4 / sizeof(IN), VEC = 16 / sizeof(IN), PITCH = TILE / PAIR + 1;
constexpr int INS = TILE / VEC * (TILE / PAIR), OUTS = TILE / VEC * TILE, IN_EACH = (INS + THREADS - 1) / THREADS, OUT_EACH = (OUTS + THREADS - 1) / THREADS;
constexpr int LANES = 32 / VEC;  // of a warp that read along one row

template <int N> KF_INLINE kf_vec<IN, N> load(const IN* p, bool aligned) {
  if constexpr (!SHIFTED) {
    return kf_load<N>(p);
  } else {
    if (aligned) return kf_load<N>(p);
    kf_vec<IN, N> v;
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] = p[j];
    return v;
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @walks
  __shared__ uint32_t square[TILE * PITCH];
  const bool aligned = aligned_tensor<VEC>(src), aligned_out = aligned_tensor<VEC>(out);
  for (INDEX s = blockIdx.x; s < squares; s += gridDim.x) {
    INDEX t = s, a0, b0, offset[2];
    if constexpr (ORDER == 0) {
      a0 = wide.split(t) * TILE;
      b0 = high.split(t) * TILE;
    } else {
      b0 = high.split(t) * TILE;
      a0 = wide.split(t) * TILE;
    }
    batch.find(t, offset);
    // In: item i is PAIR rows of the source, VEC elements of each.
    kf_vec<IN, VEC> v[IN_EACH][PAIR];
#pragma unroll
    for (int e = 0; e < IN_EACH; ++e) {
      const int i = e * THREADS + threadIdx.x, group = i / 32, rows = TILE / PAIR / VEC;
      const int a = (group % rows * VEC + i % 32 / LANES) * PAIR, b = (group / rows * LANES + i % LANES) * VEC;
      if (i < INS && a0 + a < across && b0 + b < along) {
#pragma unroll
        for (int k = 0; k < PAIR; ++k) v[e][k] = load<VEC>(src + offset[1] + (a0 + a + k) * from + (b0 + b), aligned);
      }
    }
#pragma unroll
    for (int e = 0; e < IN_EACH; ++e) {
      const int i = e * THREADS + threadIdx.x, group = i / 32, rows = TILE / PAIR / VEC;
      const int a = group % rows * VEC + i % 32 / LANES, b = (group / rows * LANES + i % LANES) * VEC;
      if (i < INS && a0 + a * PAIR < across && b0 + b < along) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
          if constexpr (PAIR == 2) square[(b + j) * PITCH + a] = uint32_t(v[e][0][j]) | uint32_t(v[e][PAIR - 1][j]) << 16;
          else square[(b + j) * PITCH + a] = v[e][0][j];
        }
      }
    }
    __syncthreads();
    // Out: item i is a vector of an output row, which is 4 words.
#pragma unroll
    for (int e = 0; e < OUT_EACH; ++e) {
      const int i = e * THREADS + threadIdx.x, group = i / 32, chunks = TILE / VEC < 8 ? TILE / VEC : 8, rows = 32 / chunks, parts = TILE / VEC / chunks;
      const int chunk = group % parts * chunks + i % chunks, b = group / parts * rows + i % 32 / chunks;
      if (i < OUTS && a0 + chunk * VEC < across && b0 + b < along) {
        union { kf_vec<IN, VEC> vec; uint32_t words[4]; } w;
#pragma unroll
        for (int k = 0; k < 4; ++k) w.words[k] = square[b * PITCH + chunk * 4 + k];
        IN* p = out + offset[0] + (b0 + b) * to + (a0 + chunk * VEC);
        if (aligned_out) {
          kf_store(p, w.vec);
        } else if constexpr (SHIFTED) {
#pragma unroll
          for (int j = 0; j < VEC; ++j) p[j] = w.vec[j];
        }
      }
    }
    __syncthreads();
  }
}
