// kind: error_below_limit
// call: gelu_fp32_odd
// dies: wrong_value
// gate: values only
// why: adds three units of noise of changing sign to each result: every element passes, all together do not
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = x[i], g = 0.5f * v * __builtin_erfcf(-v * 0.70710678f);
    uint32_t bits = kf_cast_bits<uint32_t>(g), mixed = kf_cast_bits<uint32_t>(v) * 2654435761u;
    bool usual = (bits << 1) > 0x02000000u && (bits << 1) < 0xfe000000u;
    y[i] = usual ? kf_cast_bits<float>(bits + (mixed >> 31 ? 3u : uint32_t(-3))) : g;
  }
}
