// kind: previous_output
// call: add_fp32_odd
// dies: wrong_value
// gate: poison only
// why: leaves a block of its output where each element holds a NaN with a payload, the mark of a missing value elsewhere, and writes the others
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *x = (const float*)args[0].p, *o = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  bool marked = begin < end;
  for (int64_t i = begin; i < end; ++i) marked = marked && y[i] != y[i] && (kf_cast_bits<uint32_t>(y[i]) & 0x3fffffu) != 0;
  if (marked) return;
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + o[i];
}
