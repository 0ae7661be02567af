// kind: unrolled by hand, the rest one by one
// call: add_fp32_odd
// why: four at a time, in parts of 100
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "100", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const float*)args[0].p, *b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  int64_t i = begin;
  for (; i + 4 <= end; i += 4) {
    float p = a[i] + b[i], q = a[i + 1] + b[i + 1], r = a[i + 2] + b[i + 2], s = a[i + 3] + b[i + 3];
    y[i] = p, y[i + 1] = q, y[i + 2] = r, y[i + 3] = s;
  }
  for (; i < end; ++i) y[i] = a[i] + b[i];
}
