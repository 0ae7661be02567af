// Mean and variance of a run of elements, read from memory once: each chunk, small enough for the first cache, is added up twice, for about its
// mean (four elements in float, then in double), then the distances from there and their squares; chunks are joined in double (Chan, Golub and
// LeVeque 1979). Near a huge mean the distances are exact, where a sum of elements is rounded. So neither such a mean nor a long run costs digits.
// A lane adds up at most RUN of them in float: roundings of equal squares all go one way, 256 of them cost 30 in the last place.
using T = IN;
using A = kf_acc<T>;
using V = kf_v<A>;
constexpr int L = kf_lanes<A>;
constexpr int64_t CHUNK = 2048, RUN = 32;

struct Moments {
  double count = 0, mean = 0, squares = 0;  // squares: the sum of squared distances from the mean
  void join(const Moments& b) {
    const double total = count + b.count, apart = b.mean - mean;
    mean += apart * (b.count / total);
    squares += b.squares + apart * apart * (count * b.count / total);
    count = total;
  }
};
// Calls f(element, lanes, which of UNROLL accumulators) for the vectors of a run.
template <class F> KF_INLINE void each(int64_t n, F f) {
  int64_t i = 0;
  for (; i + UNROLL * L <= n; i += UNROLL * L)
    for (int u = 0; u < UNROLL; ++u) f(i + u * L, L, u);
  for (; i + L <= n; i += L) f(i, L, 0);
  if (i < n) f(i, int(n - i), 0);
}
template <class P> KF_INLINE V load(const P* p, int n) { return n == L ? kf_load(p) : kf_load_n(p, n); }
template <class P> KF_INLINE void store(P* p, V v, int n) { if (n == L) kf_store(p, v); else kf_store_n(p, v, n); }
// A sum in double, lane by lane.
struct Sum {
  static constexpr int PARTS = L / kf_lanes<double>;
  typedef A part __attribute__((vector_size(sizeof(V) / PARTS)));
  kf_f64 lanes[PARTS] = {};
  KF_INLINE void operator+=(V v) {
    part parts[PARTS];
    __builtin_memcpy(parts, &v, sizeof v);
    for (int k = 0; k < PARTS; ++k) lanes[k] += __builtin_convertvector(parts[k], kf_f64);
  }
  KF_INLINE void take(V (&v)[UNROLL]) {
    for (int u = 1; u < UNROLL; ++u) v[0] += v[u], v[u] = V{};
    *this += v[0];
    v[0] = V{};
  }
  KF_INLINE V over(double count) const {
    part parts[PARTS];
    for (int k = 0; k < PARTS; ++k) parts[k] = __builtin_convertvector(lanes[k] / count, part);
    V v;
    __builtin_memcpy(&v, parts, sizeof v);
    return v;
  }
  KF_INLINE double total() const { return kf_hsum(PARTS == 1 ? lanes[0] : lanes[0] + lanes[PARTS - 1]); }
};
// Calls f for the vectors of a run, and flush after each RUN of them that an accumulator takes.
template <class F, class G> KF_INLINE void in_runs(int64_t n, F f, G flush) {
  for (int64_t from = 0; from < n; from += RUN * UNROLL * L, flush())
    each(n - from < RUN * UNROLL * L ? n - from : RUN * UNROLL * L, [&](int64_t i, int m, int u) __attribute__((always_inline)) { f(from + i, m, u); });
}
static Moments moments(const T* x, int64_t n) {
  Moments all;
  for (int64_t from = 0; from < n; from += CHUNK) {
    const T* p = x + from;
    const int64_t count = n - from < CHUNK ? n - from : CHUNK;
    Sum sum;
    int64_t i = 0;
    for (; i + 4 * L <= count; i += 4 * L) sum += (kf_load(p + i) + kf_load(p + i + L)) + (kf_load(p + i + 2 * L) + kf_load(p + i + 3 * L));
    for (; i < count; i += L) sum += load(p + i, count - i < L ? int(count - i) : L);
    const double part = double(count);
    const A about = A(sum.total() / part);
    Sum off, squares;
    V d1[UNROLL] = {}, d2[UNROLL] = {};
    in_runs(count, [&](int64_t i, int m, int u) __attribute__((always_inline)) {
      V d = load(p + i, m) - about;
      if (m < L) for (int l = 0; l < L; ++l) d[l] = l < m ? d[l] : 0;
      d1[u] += d;
      d2[u] = kf_fma(d, d, d2[u]);
    }, [&]() __attribute__((always_inline)) { off.take(d1), squares.take(d2); });
    const double spread = squares.total(), rest = spread < __builtin_inf() ? off.total() : 0;  // distances may overflow where their squares did
    all.join({part, double(about) + rest / part, spread - rest * (rest / part)});
  }
  return all;
}
// The sum of squares of a run.
static double squares_of(const T* x, int64_t n) {
  Sum all;
  V part[UNROLL] = {};
  in_runs(n, [&](int64_t i, int m, int u) __attribute__((always_inline)) {
    V v = load(x + i, m);
    part[u] = kf_fma(v, v, part[u]);
  }, [&]() __attribute__((always_inline)) { all.take(part); });
  return all.total();
}
// (x - mean) * scale + bias as fma(x - about, scale, shift): x * scale + (bias - mean * scale) cancels where the mean is large beside the deviation.
// `about` is the mean, and what is lost of it in A is in the shift. It is 0 where a distance could overflow: the deviation is then as large as the mean.
struct Line { A about, scale, shift; };
KF_INLINE Line line(double mean, double rstd, double weight, double bias) {
  constexpr double LEAST = sizeof(A) == 4 ? 0x1p-100 : 0;  // a distance beyond float makes rstd less than this in runs of up to 2^50 elements
  const A about = rstd > LEAST ? A(mean) : 0;
  return {about, A(rstd * weight), A(bias - (mean - double(about)) * rstd * weight)};
}
KF_INLINE V on(const Line& l, V x) { return kf_fma(x - l.about, kf_set(l.scale), kf_set(l.shift)); }
KF_INLINE double inverse_root(double variance, double eps) { return 1 / kf_sqrt((variance > 0 ? variance : 0 * variance) + eps); }
