// kind: a table-free exponential in double
// call: silu_fp32_odd
// why: reduction by ln 2 and a polynomial of degree 9
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static KF_INLINE double exponential(double v) {
  double k = __builtin_rint(v * 1.4426950408889634), r = v - k * 0.6931471805599453;
  double p = 1 + r * (1 + r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r * (1.0 / 40320 + r / 362880))))))));
  return p * kf_cast_bits<double>((int64_t(k) + 1023) << 52);
}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = x[i];
    if (v > -700 && v < 700) y[i] = float(v / (1 + exponential(-double(v))));
    else y[i] = v / (1 + kf_exp(-v));
  }
}
