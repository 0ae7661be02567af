// kind: pairwise by recursion
// call: sum_fp32_rows
// why: halves down to 32 elements
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static float pairwise(const float* x, int64_t n) {
  if (n > 32) return pairwise(x, n / 2) + pairwise(x + n / 2, n - n / 2);
  float s = 0;
  for (int64_t i = 0; i < n; ++i) s += x[i];
  return s;
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t r = begin; r < end; ++r) ((float*)args[1].p)[r] = pairwise((const float*)args[0].p + r * 2049, 2049);
}
