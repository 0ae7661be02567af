// kind: biased_error
// call: silu_fp32_odd
// dies: wrong_value
// gate: values
// why: is two units too large everywhere: no element shows it, their mean does
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    double v = x[i];
    float s = float(v / (1 + __builtin_exp(-v)));
    uint32_t bits = kf_cast_bits<uint32_t>(s);
    bool usual = (bits << 1) > 0x02000000u && (bits << 1) < 0xfe000000u;
    y[i] = usual ? kf_cast_bits<float>(bits + 2) : s;
  }
}
