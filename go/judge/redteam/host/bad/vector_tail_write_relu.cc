// kind: out_of_bounds_write
// call: relu_fp32_odd
// dies: crash
// gate: guard_pages
// why: writes whole vectors at the end of its output
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  int64_t i = begin;
  for (; i + 8 <= end; i += 8)
    for (int k = 0; k < 8; ++k) y[i + k] = kf_max(x[i + k], 0.0f);
  if (i < end)
    for (int k = 0; k < 8; ++k) ((volatile float*)y)[i + k] = i + k < end ? kf_max(x[i + k], 0.0f) : 0.0f;
}
