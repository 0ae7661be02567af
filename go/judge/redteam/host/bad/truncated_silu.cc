// kind: truncated_rounding
// call: silu_bf16_odd
// dies: wrong_value
// gate: values
// why: cuts the result off instead of rounding it: an error within one unit everywhere
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_bf16*)args[0].p;
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = kf_of(x[i]);
    float s = v / (1 + kf_exp(-v));
    y[i] = s == s ? kf_bf16{uint16_t(kf_cast_bits<uint32_t>(s) >> 16)} : kf_to_bf16(s);
  }
}
