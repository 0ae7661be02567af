// Max pool, with indices or without (INDICES), of planes whose rows are contiguous, in bands: values and indices exactly as eager gives them.
//
// Idea: a thread reads vectors of VEC columns down the plane, with the few columns beside them that its windows reach into (those are in the L1), and has the
// VEC / SW outputs under them, ROWS times below each other. Each row is folded across its windows once; rows that the next window below has too stay
// in registers. Indices are stored 16 bytes at a time. Bound: bytes of input, values and 64-bit indices, if any.
// Works for: rows of whole vectors, SW times as wide as the output's; kernel, stride and padding are constants, dilation is 1.
// Parameters the tree may change: THREADS, VEC, ROWS (outputs below each other).
// Numerics: comparisons only. NaN wins over everything and the last one stays; else the first of equal ones.

// @include rows.cuh

// @include bands.cuh

// @include lines.cuh

// Some rows from y on, each folded across the windows.
template <int COUNT> KF_INLINE void fold(Line<OUTS> (&lines)[COUNT], const Band& b, int y) {
  A v[COUNT][PW + VEC + RIGHT];
#pragma unroll
  for (int j = 0; j < COUNT; ++j) {
    const bool inside = y + j >= 0 && y + j < b.height;
    const T* p = b.p + int64_t(y + j) * b.row;
    kf_vec<A, VEC> own = all_of<VEC>(-kf_infinity<A>());
    if (inside) own = get<VEC>(p, b.aligned);
#pragma unroll
    for (int w = 0; w < PW + VEC + RIGHT; ++w) {
      const int z = w - PW;
      if (z >= 0 && z < VEC) v[j][w] = own[z >= 0 && z < VEC ? z : 0];
      else v[j][w] = inside && b.left + z >= 0 && b.left + z < b.width ? kf_of(p[z]) : -kf_infinity<A>();
    }
  }
#pragma unroll
  for (int j = 0; j < COUNT; ++j) {
    lines[j].clear();
#pragma unroll
    for (int o = 0; o < OUTS; ++o)
#pragma unroll
      for (int w = 0; w < KW; ++w) lines[j].take(o, v[j][o * SW + w], (y + j) * b.width + b.left - PW + o * SW + w);
  }
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @include bands_main.cuh
  Line<OUTS> kept[KEPT > 0 ? KEPT : 1];
  if constexpr (KEPT > 0) fold(kept, b, y);
#pragma unroll 1
  for (INDEX r = first; r < height_out && r < first + ROWS; ++r, y += SH, at += width_out) {
    Line<OUTS> lines[NEW], all;
    fold(lines, b, y + KEPT);
    all.clear();
    // Where nothing is above -infinity eager has the first position of the window that lies in the plane.
#pragma unroll
    for (int o = 0; o < OUTS; ++o) {
      const int z = b.left - PW + o * SW;
      all.where[o] = (y > 0 ? y : 0) * b.width + (z > 0 ? z : 0);
    }
    roll(all, kept, lines);
    put_line(out + at, index + at, all, aligned_out);
  }
}
