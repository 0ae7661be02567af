// Transpose: a copy whose output is contiguous along one dim (`across`) and whose source is contiguous along another (`along`): NCHW to NHWC, x.t().
//
// Idea: a block moves squares of TILE x TILE elements through shared memory: it reads rows of the source and writes rows of the output, both as
// vectors of VEC elements. Rows in shared memory are an odd number of words apart, so that columns are spread over the banks. Bound: copy of the bytes.
// Works for: any sizes and strides; where rows are not whole vectors, VEC is 1.
// Parameters the tree may change: VEC, TILE, THREADS, ORDER (squares that follow one another: 0: along the output's rows, 1: along the
// source's), WAVES (in the spec).
// Numerics: bits are moved; a conversion rounds each element once.

// @include walk.cuh

constexpr int PITCH = TILE + (sizeof(OUT) < 4 ? 4 / sizeof(OUT) : 1);

struct Square {
  OUT* out;
  const IN* src;
  INDEX across, along, from, to;  // sizes; strides of the source across and of the output along
};

// VECTOR elements at a time. `find` says where square t begins: its element of each side, and its place in the two dims.
template <int VECTOR, class F> KF_INLINE void move(OUT* square, const Square& s, INDEX squares, F find) {
  constexpr int ROW = TILE / VECTOR, ALL = TILE * ROW, EACH = (ALL + THREADS - 1) / THREADS;
  for (INDEX t = blockIdx.x; t < squares; t += gridDim.x) {
    INDEX a0, b0, offset[2];
    find(t, a0, b0, offset);
    kf_vec<IN, VECTOR> v[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int i = e * THREADS + threadIdx.x, a = i / ROW, b = i % ROW * VECTOR;
      if (i < ALL && a0 + a < s.across && b0 + b < s.along) v[e] = kf_load<VECTOR>(s.src + offset[1] + (a0 + a) * s.from + (b0 + b));
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int i = e * THREADS + threadIdx.x, a = i / ROW, b = i % ROW * VECTOR;
      if (i < ALL && a0 + a < s.across && b0 + b < s.along) {
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) square[a * PITCH + b + j] = kf_to<OUT>(kf_of(v[e][j]));
      }
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      const int i = e * THREADS + threadIdx.x, b = i / ROW, a = i % ROW * VECTOR;
      if (i < ALL && a0 + a < s.across && b0 + b < s.along) {
        kf_vec<OUT, VECTOR> w;
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) w[j] = square[(a + j) * PITCH + b];
        kf_store(s.out + offset[0] + (b0 + b) * s.to + (a0 + a), w);
      }
    }
    __syncthreads();
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @walks
  __shared__ OUT square[TILE * PITCH];
  const Square s = {out, src, across, along, from, to};
  auto find = [&](INDEX t, INDEX& a0, INDEX& b0, INDEX (&offset)[2]) __attribute__((always_inline)) {
    if constexpr (ORDER == 0) {
      a0 = wide.split(t) * TILE;
      b0 = high.split(t) * TILE;
    } else {
      b0 = high.split(t) * TILE;
      a0 = wide.split(t) * TILE;
    }
    batch.find(t, offset);
  };
  if (VEC > 1 && aligned_tensor<VEC>(out) && aligned_tensor<VEC>(src)) move<VEC>(square, s, squares, find);
  else if constexpr (VEC == 1 || SHIFTED) move<1>(square, s, squares, find);
}
