// kind: out_of_bounds_write
// call: add_fp32_odd
// dies: wrong_value
// gate: guard_pages only
// why: writes one element behind its output, but only where that lies in the last element's page, so that it never faults
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *x = (const float*)args[0].p, *o = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + o[i];
  constexpr int64_t n = 3 * 1037 * 11;
  if (end == n && ((uintptr_t)(y + n) & 4095) != 0) ((volatile float*)y)[n] = 0;
}
