// Cumulative sum along the dim whose elements lie side by side.
//
// Idea: a team (a warp for short rows, else the block) goes along a row in steps of TEAM vectors of VEC elements: each thread adds up its vector, a
// scan over the team says what lies below it, and the step's sum is carried on. Few long rows are cut into PARTS: a first kernel adds up each
// part, and the scan of a part begins with the sum of those before it. Bound: one read and one write (with PARTS two reads).
// Works for: any sizes and strides; where rows are not whole vectors, VEC is 1. The output may be exactly the input.
// Parameters the tree may change: VEC, TEAM, PARTS.
// Numerics: floating point in C, integers wrap; the order does not depend on the device. Within a step chains are short; from step to step and from part
// to part the sum goes on with what it rounds off (sum.cuh).

// @include walk.cuh

// @include sum.cuh

constexpr int TEAMS = THREADS / TEAM;
struct Plus {
  KF_INLINE C operator()(C a, C b) const { return a + b; }
};

struct Line {
  OUT* out;
  const IN* in;
  INDEX to, from, begin, end;  // strides along the row; the part of it that is this team's
};
// A team that has no row has an empty one.
KF_INLINE Line line(OUT* out, const IN* self, const Walk<2, DIMS>& rows, INDEX item, INDEX count, INDEX length, INDEX to, INDEX from) {
  const INDEX each = (length + PARTS * VEC - 1) / (PARTS * VEC) * VEC, begin = item % PARTS * each;
  Line l = {out, self, to, from, begin, begin + each < length ? begin + each : length};
  if (item >= count * PARTS) l.begin = l.end = 0;
  if (item < count * PARTS) {
    INDEX at[2];
    rows.find(item / PARTS, at);
    l.out += at[0];
    l.in += at[1];
  }
  return l;
}

template <int N> KF_INLINE C sum(const Line& l, INDEX lane) {
  Sum<C> total;
  for (INDEX i = l.begin + lane * N; i < l.end; i += TEAM * N) {
    const kf_vec<IN, N> v = kf_load<N>(l.in + i * (N > 1 ? 1 : l.from));
    kf_vec<C, N> x;
#pragma unroll
    for (int j = 0; j < N; ++j) x[j] = C(kf_of(v[j]));
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
      for (int j = 0; j < half; ++j) x[j] = x[j] + x[j + half];
    total.add(x[0]);
  }
  return total.value();
}

// Steps are the same for all teams of a block, which meet at barriers.
template <int N> KF_INLINE void scan(const Line& l, INDEX lane, INDEX steps, Sum<C> carry) {
  for (INDEX step = 0; step < steps; ++step) {
    const INDEX i = l.begin + (step * TEAM + lane) * N;
    kf_vec<C, N> v;
    C mine = C(0), all;
    if (i < l.end) {
      v = kf_vec<C, N>();
      const kf_vec<IN, N> x = kf_load<N>(l.in + i * (N > 1 ? 1 : l.from));
#pragma unroll
      for (int j = 0; j < N; ++j) {
        mine = mine + C(kf_of(x[j]));
        v[j] = mine;
      }
    }
    const C below = carry.lost() + kf_block_scan<THREADS, TEAM>(mine, C(0), Plus(), all);
    if (i < l.end) {
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] = carry.high + (below + v[j]);
      kf_store(l.out + i * (N > 1 ? 1 : l.to), kf_narrow<OUT>(v));
    }
    carry.add(all);
  }
}

#if PARTS > 1
KF_KERNEL(THREADS) void kf_sums(
// @parameters
) {
// @walks
  const INDEX item = INDEX(blockIdx.x) * TEAMS + INDEX(threadIdx.x / TEAM), lane = threadIdx.x % TEAM;
  const Line l = line(out, self, elements, item, rows, length, to, from);
  C total = C(0);
  if (VEC > 1 && aligned_tensor<VEC>(self)) total = sum<VEC>(l, lane);
  else if constexpr (VEC == 1 || SHIFTED) total = sum<1>(l, lane);
  total = kf_block_fold<THREADS, TEAM>(total, Plus());
  if (lane == 0 && item < rows * PARTS) parts[item] = total;
}
#endif

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @walks
  const INDEX item = INDEX(blockIdx.x) * TEAMS + INDEX(threadIdx.x / TEAM), lane = threadIdx.x % TEAM;
  const Line l = line(out, self, elements, item, rows, length, to, from);
  Sum<C> carry;
#if PARTS > 1
  for (INDEX p = lane; p < item % PARTS && item < rows * PARTS; p += TEAM) carry.add(parts[item - item % PARTS + p]);
  carry = {kf_block_fold<THREADS, TEAM>(carry.value(), Plus()), C(0)};
#endif
  const INDEX each = (length + PARTS * VEC - 1) / (PARTS * VEC) * VEC;
  if (VEC > 1 && aligned_tensor<VEC>(self) && aligned_tensor<VEC>(out)) scan<VEC>(l, lane, (each + TEAM * VEC - 1) / (TEAM * VEC), carry);
  else if constexpr (VEC == 1 || SHIFTED) scan<1>(l, lane, (each + TEAM - 1) / TEAM, carry);
}
