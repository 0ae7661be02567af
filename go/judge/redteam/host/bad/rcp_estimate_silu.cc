// kind: approximation
// call: silu_fp32_odd
// dies: wrong_value
// gate: values
// why: divides by the processor's estimate of a reciprocal, 12 bits
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float d = 1 + kf_exp(-x[i]);
    float inverse = _mm_cvtss_f32(_mm_rcp_ss(_mm_set_ss(d)));
    y[i] = d < 1e30f ? x[i] * inverse : x[i] / d;
  }
}
