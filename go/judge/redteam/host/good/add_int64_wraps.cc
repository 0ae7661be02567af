// kind: sums of integers that wrap
// call: add_int64
// why: unsigned, so that what passes the end of the range is defined
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *x = (const uint64_t*)args[0].p, *o = (const uint64_t*)args[1].p;
  auto* y = (uint64_t*)args[2].p;
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + o[i];
}
