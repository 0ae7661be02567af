// Reduce rows: sum, mean or maximum where the reduced elements lie side by side.
//
// Idea: a team of TEAM threads folds the elements of one output, vectors of VEC elements, UNROLL of them in flight; then shuffles, and shared memory
// between warps. Long rows of few outputs are cut into PARTS, whose results a second kernel joins: no atomics, so the same bits every time.
// Bound: one read of the input.
// Works for: any dims and strides. A row in one run may begin and end anywhere; rows of several runs are whole vectors, or VEC is 1.
// Parameters the tree may change: VEC, TEAM, UNROLL, PARTS.
// Numerics: in C. A thread's UNROLL vectors in flight are folded in pairs, then added to its run, which keeps what it rounds off; those of the team are
// joined in pairs. A NaN makes the maximum NaN.

// @include walk.cuh
// @include fold.cuh

constexpr int OUTPUT = 0;  // which operand of the kept dims' walk is the output

template <int N> KF_INLINE C vector(const kf_vec<IN, N>& v) {
  kf_vec<C, N> x;
#pragma unroll
  for (int j = 0; j < N; ++j) x[j] = C(kf_of(v[j]));
  return folded(x);
}
// N elements at a time: those of `count` that are this thread's.
template <int N, class At> KF_INLINE C some(const IN* in, INDEX first, INDEX count, At at) {
  Run run;
  INDEX i = first;
  for (; i + (UNROLL - 1) * TEAM < count; i += UNROLL * TEAM) {
    kf_vec<IN, N> v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = kf_load<N>(in + at(i + u * TEAM));
    kf_vec<C, UNROLL> all;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) all[u] = vector(v[u]);
    run.add(folded(all));
  }
  for (; i < count; i += TEAM) run.add(vector(kf_load<N>(in + at(i))));
  return run.value();
}

KF_KERNEL(THREADS) void kf_main(
// @parameters
) {
// @walks
  const INDEX item = INDEX(blockIdx.x) * (THREADS / TEAM) + INDEX(threadIdx.x / TEAM), lane = threadIdx.x % TEAM;
  const INDEX o = item / PARTS, part = item % PARTS;
  INDEX at[2];
  C x = start();
  if (o < outputs) {
    elements.find(o, at);
    const IN* row = self + at[1];
    auto place = [&](INDEX i) __attribute__((always_inline)) {
      INDEX offset[1];
      row_elements.find(i, offset);
      return offset[0];
    };
    if constexpr (VEC == 1) {
      const INDEX each = (length + PARTS - 1) / PARTS, begin = part * each;
      x = some<1>(row, begin + lane, begin + each < length ? begin + each : length, place);
    } else if constexpr (ROW_DIMS == 1) {
      // Up to the first whole vector, the vectors, the rest.
      const INDEX each = (length + PARTS * VEC - 1) / (PARTS * VEC) * VEC, begin = part * each;
      const INDEX n = length - begin < each ? length - begin : each;
      const IN* from = row + begin;
      INDEX head = INDEX(-(uintptr_t(from) / sizeof(IN)) % VEC);
      if (head > n) head = n;
      const INDEX whole = n > head ? (n - head) / VEC : 0;
      x = some<VEC>(from + head, lane, whole, [](INDEX i) __attribute__((always_inline)) { return i * VEC; });
      auto same = [](INDEX i) __attribute__((always_inline)) { return i; };
      for (INDEX i = lane; i < head; i += TEAM) x = Fold()(x, C(kf_of(from[i])));
      for (INDEX i = head + whole * VEC + lane; i < n; i += TEAM) x = Fold()(x, C(kf_of(from[i])));
    } else if (aligned_tensor<VEC>(self)) {
      auto vector = [&](INDEX i) __attribute__((always_inline)) {
        INDEX offset[1];
        row_vectors.find(i, offset);
        return offset[0];
      };
      const INDEX count = length / VEC, each = (count + PARTS - 1) / PARTS, begin = part * each;
      x = some<VEC>(row, begin + lane, begin + each < count ? begin + each : count, vector);
    } else if constexpr (SHIFTED) {
      const INDEX each = (length / VEC + PARTS - 1) / PARTS * VEC, begin = part * each;
      x = some<1>(row, begin + lane, begin + each < length ? begin + each : length, place);
    }
  }
  x = kf_block_fold<THREADS, TEAM>(x, Fold());
  if (o < outputs && lane == 0) {
#if PARTS > 1
    parts[item] = x;
#else
    out[at[OUTPUT]] = finish(x, outputs, numel);
#endif
  }
}

// @include join.cuh
