// kind: a flat index taken apart
// call: mul_fp32_strided
// why: parts may begin amid a row
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "64", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const float*)args[0].p, *b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  for (int64_t i = begin; i < end; ++i) {
    int64_t at = i / 131 * 262 + i % 131;
    y[i] = a[at] * b[at];
  }
}
