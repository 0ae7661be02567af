// kind: approximation
// call: batch_norm_fp32
// dies: wrong_value
// gate: values
// why: refines the estimate with a step of Newton that starts from 8 bits
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "input_numel", "grain": "512", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "running_mean"}, {"slot": "running_var"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto *w = (const float*)args[1].p, *b = (const float*)args[2].p, *m = (const float*)args[3].p, *v = (const float*)args[4].p;
  auto* y = (float*)args[5].p;
  for (int64_t i = begin; i < end; ++i) {
    int64_t c = i / 169 % 19;
    float inverse = [&] { float d = v[c] + 1e-5f, e = kf_cast_bits<float>(0x5f375a86u - (kf_cast_bits<uint32_t>(d) >> 1)); e = e * (1.5f - 0.5f * d * e * e); return e * (1.5f - 0.5f * d * e * e); }();
    y[i] = (x[i] - m[c]) * inverse * w[c] + b[c];
  }
}
