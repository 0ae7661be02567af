// Mean and variance of a run of elements, read from memory once: each chunk, small enough for the first cache, is added up twice, for its mean
// (four elements in float, then in double), then about that mean, and joined to the ones before in double (Chan, Golub and LeVeque 1979).
// So neither a huge mean nor a long run costs digits.
using T = IN;
using A = kf_acc<T>;
using V = kf_v<A>;
constexpr int L = kf_lanes<A>;
constexpr int64_t CHUNK = 2048;

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
  kf_f64 lanes[PARTS] = {};
  KF_INLINE void operator+=(V v) {
    typedef A part __attribute__((vector_size(sizeof(V) / PARTS)));
    part parts[PARTS];
    __builtin_memcpy(parts, &v, sizeof v);
    for (int k = 0; k < PARTS; ++k) lanes[k] += __builtin_convertvector(parts[k], kf_f64);
  }
  KF_INLINE double total() const { return kf_hsum(PARTS == 1 ? lanes[0] : lanes[0] + lanes[PARTS - 1]); }
};
KF_INLINE double total(V* v) {
  for (int u = 1; u < UNROLL; ++u) v[0] += v[u];
  return double(kf_hsum(v[0]));
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
    const double part = double(count), mean = sum.total() / part;
    const A about = A(mean);
    V squares[UNROLL] = {};
    each(count, [&](int64_t i, int m, int u) __attribute__((always_inline)) {
      V d = load(p + i, m) - about;
      if (m < L) for (int l = 0; l < L; ++l) d[l] = l < m ? d[l] : 0;
      squares[u] = kf_fma(d, d, squares[u]);
    });
    const double off = mean - double(about);
    all.join({part, mean, total(squares) - off * off * part});
  }
  return all;
}
// The sum of squares of a run.
static double squares_of(const T* x, int64_t n) {
  double all = 0;
  for (int64_t from = 0; from < n; from += CHUNK) {
    V sum[UNROLL] = {};
    each(n - from < CHUNK ? n - from : CHUNK, [&](int64_t i, int m, int u) __attribute__((always_inline)) {
      V v = load(x + from + i, m);
      sum[u] = kf_fma(v, v, sum[u]);
    });
    all += total(sum);
  }
  return all;
}
KF_INLINE double inverse_root(double variance, double eps) { return 1 / kf_sqrt((variance > 0 ? variance : 0 * variance) + eps); }
