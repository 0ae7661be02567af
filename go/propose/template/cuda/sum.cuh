// A sum that keeps what its additions round off: `high` is what a plain sum would be, `low` the sum of the parts that were lost, each of them exact
// (Knuth's two-sum: six additions, whichever of the two is larger). Of n terms the value is within u |sum| + (n u)^2 times their magnitudes, u = 2^-24
// in float (Ogita, Rump, Oishi 2005, "Accurate sum and dot product", algorithm 4.4, proposition 4.5). A plain sum has (n - 1) u times the magnitudes, and
// comes near it where terms are alike: their roundings share a sign within a binade. No compile option reassociates, and there is no product to fuse.
template <class X> struct Sum {
  X high = X(0), low = X(0);
  KF_INLINE void add(X x) {
    if constexpr (kf_is_float<X>) {
      const X sum = high + x, part = sum - high;
      low += (high - (sum - part)) + (x - part);
      high = sum;
    } else {
      high += x;
    }
  }
  // What was lost; beside an infinity or an overflow it is no number, and means nothing.
  KF_INLINE X lost() const { return low - low == X(0) ? low : X(0); }
  KF_INLINE X value() const { return high + lost(); }
  KF_INLINE X with(X x) const { return high + (lost() + x); }
};
