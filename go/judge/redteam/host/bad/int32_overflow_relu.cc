// kind: int32_overflow
// call: relu_fp32_large
// dies: wrong_value
// gate: values
// why: computes an index in 32 bits: right for the first 4,294,967 elements
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "65536", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    uint32_t scaled = uint32_t(i) * 1000u;
    y[i] = kf_max(x[scaled / 1000u], 0.0f);
  }
}
