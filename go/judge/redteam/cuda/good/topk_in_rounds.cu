// kind: a row a thread
// call: topk_fp32
// why: the best that is left, k times
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_size0, 64)", "1", "1"], "block": ["64", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}, {"int": "self_size0", "type": "i32"}]}]}
KF_INLINE bool better(float a, float b) { return a > b || (a != a && b == b); }
KF_KERNEL(64) void kf_main(const float* self, float* out0, int64_t* out1, int count) {
  constexpr int n = 77, k = 8;
  const int r = blockIdx.x * 64 + threadIdx.x;
  if (r >= count) return;
  const float* x = self + r * n;
  float* v = out0 + r * k;
  int64_t* at = out1 + r * k;
  bool used[n] = {};
  for (int j = 0; j < k; ++j) {
    int best = -1;
    for (int i = 0; i < n; ++i)
      if (!used[i] && (best < 0 || better(x[i], x[best]))) best = i;
    used[best] = true;
    v[j] = x[best];
    at[j] = best;
  }
}
