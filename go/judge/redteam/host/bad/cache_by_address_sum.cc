// kind: cache_by_address
// call: sum_fp32_all
// dies: rejected
// gate: image
// why: keeps its last result with the address of the input
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static const float* last;
static float kept;
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  if (x != last) {
    double s = 0;
    for (int64_t i = 0; i < 100003; ++i) s += x[i];
    kept = float(s), last = x;
  }
  *(float*)args[1].p = kept;
}
