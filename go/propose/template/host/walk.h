// A loop over N operands of equal sizes, visited in the order of operand 0's memory as long rows. Strides in elements; 0 repeats.
template <int N> struct Loop {
  int dims = 0;
  int64_t size[DIMS + 1], stride[N][DIMS + 1];  // outermost first

  // Adds a dim where it belongs: descending strides of operand 0, then of operand 1.
  void dim(int64_t n, const int64_t (&s)[N]) {
    if (n == 1) return;
    int at = dims++;
    while (at > 0 && (stride[0][at - 1] < s[0] || (stride[0][at - 1] == s[0] && stride[N > 1][at - 1] < s[N > 1]))) {
      size[at] = size[at - 1];
      for (int k = 0; k < N; ++k) stride[k][at] = stride[k][at - 1];
      --at;
    }
    size[at] = n;
    for (int k = 0; k < N; ++k) stride[k][at] = s[k];
  }
  // Joins neighbours that are one run in every operand; afterwards there is at least one dim.
  void join() {
    int to = 0;
    for (int d = 1; d < dims; ++d) {
      bool run = true;
      for (int k = 0; k < N; ++k) run &= stride[k][to] == stride[k][d] * size[d];
      if (run) size[to] *= size[d]; else size[++to] = size[d];
      for (int k = 0; k < N; ++k) stride[k][to] = stride[k][d];
    }
    if (dims == 0) {
      size[0] = 1;
      for (int k = 0; k < N; ++k) stride[k][0] = 0;
    }
    dims = to + 1;
  }
  // Calls rows(m, n, offset) for the parts that make up [begin, end): m rows of n elements. The first element of row r lies at
  // offset[k] + r * next(k) in operand k, elements along a row stride[k][dims - 1] apart.
  int64_t next(int k) const { return dims > 1 ? stride[k][dims - 2] : 0; }
  template <class F> KF_INLINE void run(int64_t begin, int64_t end, F rows) const {
    int64_t at[DIMS + 1], offset[N] = {}, rest = begin;
    for (int d = dims - 1; d >= 0; --d) {
      at[d] = rest % size[d];
      rest /= size[d];
      for (int k = 0; k < N; ++k) offset[k] += at[d] * stride[k][d];
    }
    const int last = dims - 1;
    for (int64_t left = end - begin; left > 0;) {
      int64_t m = 1, n = size[last] - at[last];
      if (n > left) n = left;
      if (last > 0 && n == size[last]) m = left / n < size[last - 1] - at[last - 1] ? left / n : size[last - 1] - at[last - 1];
      rows(m, n, offset);
      left -= m * n;
      move(offset, at, last, n == size[last] ? m - 1 : 0);
    }
  }

 private:
  // To the first element of the row after `more` further rows.
  KF_INLINE void move(int64_t* offset, int64_t* at, int last, int64_t more) const {
    for (int k = 0; k < N; ++k) offset[k] -= at[last] * stride[k][last];
    at[last] = 0;
    int64_t steps = more + 1;
    for (int d = last - 1; d >= 0; --d, steps = 1) {
      at[d] += steps;
      for (int k = 0; k < N; ++k) offset[k] += steps * stride[k][d];
      if (at[d] < size[d]) break;
      for (int k = 0; k < N; ++k) offset[k] -= size[d] * stride[k][d];
      at[d] = 0;
    }
  }
};
