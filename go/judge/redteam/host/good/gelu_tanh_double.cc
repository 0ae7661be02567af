// kind: tanh of libm in double
// call: gelu_fp16_tanh
// why: the tanh form that the call asks for
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "256", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    double v = kf_of(x[i]);
    y[i] = kf_to_f16(float(0.5 * v * (1 + __builtin_tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)))));
  }
}
