// Idea: channels lie side by side, so a thread has 8 of them of one output position, and all accesses are 16 bytes; what neighbours read twice is in the L1. A row of the
// output is a block's, so that positions need no division by its sizes.

union Words {  // 16 bytes of a row, as they came
  uint4 all;
  uint32_t pairs[4];
};
KF_INLINE float low(uint32_t pair) { return __uint_as_float(pair << 16); }
KF_INLINE float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
// Eight channels: the largest value so far and where in the plane it lies. NaN wins and the last one stays; else the first of equal ones.
struct Best {
  float value[8];
  int where[8];
  KF_INLINE void begin() {
#pragma unroll
    for (int c = 0; c < 8; ++c) value[c] = -kf_infinity<float>(), where[c] = 0;
  }
  KF_INLINE void look(uint4 loaded, int at) {
    Words w;
    w.all = loaded;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float v = c % 2 == 0 ? low(w.pairs[c / 2]) : high(w.pairs[c / 2]);
      if (v > value[c] || v != v) value[c] = v, where[c] = at;
    }
  }
  KF_INLINE uint4 values() const {
    Words w;
#pragma unroll
    for (int p = 0; p < 4; ++p) w.pairs[p] = kf_pair(value[2 * p], value[2 * p + 1], (kf_bf16*)nullptr);
    return w.all;
  }
};
// Two indices of 64 bits, 16 bytes.
struct alignas(16) Two {
  int64_t first, second;
};
KF_INLINE void put(const Best& best, uint4* out, Two* index) {
  *out = best.values();
#pragma unroll
  for (int p = 0; p < 4; ++p) index[p] = Two{best.where[2 * p], best.where[2 * p + 1]};
}

KF_KERNEL(THREADS) void kf_main(const uint4* self, uint4* out, Two* index, int channels, int height, int width, int rows, int columns) {
  const int vectors = channels / 8, n = blockIdx.x * THREADS + threadIdx.x;  // 8 channels of a column of the output row
  const int vector = n % vectors, column = n / vectors, sample = blockIdx.z;
  if (column >= columns) return;
  const int row = blockIdx.y;
  Best best;
  best.begin();
#pragma unroll
  for (int h = -1; h <= 1; ++h)
#pragma unroll
    for (int w = -1; w <= 1; ++w) {
      const int y = 2 * row + h, z = 2 * column + w;
      if (y >= 0 && y < height && z >= 0 && z < width)
        best.look(self[(int64_t(sample * height + y) * width + z) * vectors + vector], y * width + z);
    }
  const int64_t at = (int64_t(sample * rows + row) * columns + column) * vectors + vector;
  put(best, out + at, index + at * 4);
}
