// Topk: the K largest (or smallest) elements along a dim, best first, with their places.
//
// Idea: the best so far are a short sorted list. Vectors of the row become integers that order like its elements, and only where one of them is
// better than the list's last are they looked at one by one; after the first few that is rare. Bound: one read of the input.
// Works for: K up to 128, floating point, any strides (elements that are not side by side are gathered first).
// Parameters the tree may change: UNROLL (vectors that are looked at together), GRAIN (least elements a thread takes; in the spec), KF_LANES.
// Numerics: values are moved. NaN is larger than infinity, as eager has it; among equal elements the first ones are taken.

// @include walk.h

using C = kf_acc<IN>;
using V = kf_v<C>;
using B = typename kf_v_of<C>::bits;
using Key = decltype(B{}[0] + B{}[0]);
constexpr int W = kf_lanes<C>, SPAN = W * UNROLL;
constexpr Key LARGE = sizeof(Key) == 8 ? Key(0x7fffffffffffffff) : Key(0x7fffffff);

// Elements as integers that are larger where an element is better.
KF_INLINE B keys_of(V v) {
  const B bits = (B)v;
  B key = bits ^ (bits >> int(8 * sizeof(Key) - 1) & LARGE);
  key = v != v ? B{} + LARGE : key;
  return LARGEST ? key : ~key;
}

struct List {
  Key key[K];
  int64_t place[K];
  int count;

  KF_INLINE bool takes(Key x) const { return count < K || x > key[K - 1]; }
  KF_INLINE void insert(Key x, int64_t from) {
    int at = count < K ? count++ : K - 1;
    for (; at > 0 && key[at - 1] < x; --at) key[at] = key[at - 1], place[at] = place[at - 1];
    key[at] = x;
    place[at] = from;
  }
};

KF_INLINE void row(IN* values, int64_t values_along, int64_t* indices, int64_t indices_along, const IN* in, int64_t along, int64_t n) {
  List list;
  list.count = 0;
  for (int64_t i = 0; i < n; i += SPAN) {
    const int64_t some = n - i < SPAN ? n - i : SPAN;
    IN gathered[SPAN] = {};
    const IN* from = in + i * along;
    if (along != 1 || some < SPAN) {
      for (int64_t j = 0; j < some; ++j) gathered[j] = from[j * along];
      from = gathered;
    }
    B keys[UNROLL], best;
    for (int u = 0; u < UNROLL; ++u) {
      keys[u] = keys_of(kf_load(from + u * W));
      best = u == 0 ? keys[0] : keys[u] > best ? keys[u] : best;
    }
    if (!list.takes(kf_fold(best, [](B a, B b) { return a > b ? a : b; }))) continue;
    for (int64_t j = 0; j < some; ++j) {
      const Key x = keys[j / W][j % W];
      if (list.takes(x)) list.insert(x, i + j);
    }
  }
  for (int j = 0; j < K; ++j) {
    values[j * values_along] = in[list.place[j] * along];
    indices[j * indices_along] = list.place[j];
  }
}

// args: values, indices, input; for each dim the size, then each operand's strides. DIM is not part of the work.
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const kf_arg *size = args + 3, *first = size + DIMS, *second = first + DIMS, *third = second + DIMS;
  Loop<3> lines;
  for (int d = 0; d < DIMS; ++d)
    if (d != DIM) lines.dim(size[d].i, {first[d].i, second[d].i, third[d].i});
  lines.join();
  const int last = lines.dims - 1;
  lines.run(begin, end, [&](int64_t m, int64_t n, const int64_t* offset) {
    for (int64_t r = 0; r < m; ++r)
      for (int64_t i = 0; i < n; ++i) {
        int64_t at[3];
        for (int k = 0; k < 3; ++k) at[k] = offset[k] + r * lines.next(k) + i * lines.stride[k][last];
        row((IN*)args[0].p + at[0], first[DIM].i, (int64_t*)args[1].p + at[1], second[DIM].i, (const IN*)args[2].p + at[2], third[DIM].i, size[DIM].i);
      }
  });
}
