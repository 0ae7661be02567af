// kind: one_wrong_element
// call: add_fp32_odd
// dies: wrong_value
// gate: values
// why: one element of 34,221 is off by one unit in the last place
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* a = (const float*)args[0].p;
  auto* b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  for (int64_t i = begin; i < end; ++i) {
    float s = a[i] + b[i];
    y[i] = i == 20011 ? kf_cast_bits<float>(kf_cast_bits<uint32_t>(s) + 1) : s;
  }
}
