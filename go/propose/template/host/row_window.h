// Vectors of output columns over planes whose rows are contiguous: which input columns they need, by how many loads, and which exist.
constexpr bool PAIRS = SW == 2 && DW == 1;  // even and odd columns are picked from the same two loads
constexpr int LOADS = PAIRS ? (KW + 1) / 2 * 2 : KW;
constexpr int APART = PAIRS ? 1 : SW;                                                       // columns between two lanes of a load
constexpr int REACH = PAIRS ? 2 * L + (KW - 1) / 2 * 2 : (L - 1) * SW + (KW - 1) * DW + 1;  // columns that the loads touch

// The vector of output columns [c, c + n). keep: which lanes of a load are columns of the plane; lane: the first column of each window.
struct Block {
  int64_t c;
  int n;
  I keep[LOADS], lane;

  static constexpr int begins(int k) { return PAIRS ? k / 2 * 2 + k % 2 * L : k * DW; }  // first column of load k
  static Block make(int64_t c, int64_t W, int64_t OW) {
    Block b;
    b.c = OW - c < L && OW >= L ? OW - L : c;  // the last block overlaps the one before it
    b.n = OW < L ? int(OW) : L;
    const int64_t first = b.c * SW - PW;
    b.lane = iota() * J(SW) + J(first);
    for (int k = 0; k < LOADS; ++k) {
      I column = iota() * J(APART) + J(first + begins(k));
      b.keep[k] = (column >= 0) & (column < J(W));
    }
    return b;
  }
  // Load k of the row that starts at p. SAFE reads the lanes that exist only, the others are `rest`; else whole vectors, beyond a row too.
  template <bool SAFE> KF_INLINE V load(const T* p, int k, A rest) const {
    p += c * SW - PW + begins(k);
    V v;
    if constexpr (SAFE) for (int l = 0; l < L; ++l) v[l] = keep[k][l] ? A(kf_of(p[l * APART])) : rest;
    else if constexpr (APART == 1) v = kf_load(p);
    else for (int l = 0; l < L; ++l) v[l] = kf_of(p[l * APART]);
    return v;
  }
  // Column k of each window, from a row's loads.
  static KF_INLINE V column(const V* w, int k) {
    if constexpr (PAIRS) return k % 2 ? kf_shuffle(w[k / 2 * 2], w[k / 2 * 2 + 1], [](int l) { return 2 * l + 1; })
                                   : kf_shuffle(w[k / 2 * 2], w[k / 2 * 2 + 1], [](int l) { return 2 * l; });
    return w[k];
  }
};
// Whether whole vectors stay within a tensor of `extent` elements, for output rows [first, last) of the plane at element `in`.
KF_INLINE bool within(int64_t in, int64_t pitch, int64_t H, int64_t first, int64_t last, const Block& end, int64_t extent) {
  const int64_t top = first * SH - PH, bottom = (last - 1) * SH - PH + (KH - 1) * DH;
  return in + (top > 0 ? top : 0) * pitch - PW >= 0 && in + (bottom < H ? bottom : H - 1) * pitch + end.c * SW - PW + REACH <= extent;
}
