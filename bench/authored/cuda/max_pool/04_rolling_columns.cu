// Idea: a thread walks along a row of the output and keeps the best of the column that two windows share: 6 loads an output in place of 9. The best of a column is joined with
// others by value and, among equals, by place, so that the order of looking does not matter.
// Improves on: 01_eight_channels

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
// Takes in another one's best: of two NaN the later, else the larger, else the earlier.
KF_INLINE void join(Best& best, const Best& other) {
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const float a = best.value[c], b = other.value[c];
    const bool later = other.where[c] > best.where[c];
    if (b != b ? a == a || later : b > a || (b == a && !later)) best.value[c] = b, best.where[c] = other.where[c];
  }
}

KF_KERNEL(THREADS) void kf_main(const uint4* self, uint4* out, Two* index, int channels, int height, int width, int rows, int columns) {
  const int vectors = channels / 8, n = blockIdx.x * THREADS + threadIdx.x, vector = n % vectors, sample = blockIdx.z, row = blockIdx.y;
  const int first = n / vectors * STRIP;
  if (first >= columns) return;
  const uint4* plane = self + int64_t(sample) * height * width * vectors + vector;
  auto column_of = [&](int z) {
    Best best;
    best.begin();
#pragma unroll
    for (int h = -1; h <= 1; ++h) {
      const int y = 2 * row + h;
      if (y >= 0 && y < height && z >= 0 && z < width) best.look(plane[(int64_t(y) * width + z) * vectors], y * width + z);
    }
    return best;
  };
  Best shared = column_of(2 * first - 1);
#pragma unroll
  for (int s = 0; s < STRIP; ++s) {
    const int column = first + s;
    if (column >= columns) return;
    const Best middle = column_of(2 * column), last = column_of(2 * column + 1);
    join(shared, middle);
    join(shared, last);
    const int64_t at = (int64_t(sample * rows + row) * columns + column) * vectors + vector;
    put(shared, out + at, index + at * 4);
    shared = last;
  }
}
