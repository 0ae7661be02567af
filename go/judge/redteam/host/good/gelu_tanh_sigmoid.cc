// kind: the same by a sigmoid
// call: gelu_fp16_tanh
// why: 0.5 (1 + tanh z) is sigmoid(2 z), without cancellation
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "256", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = kf_of(x[i]), z = 1.5957691f * (v + 0.044715f * v * v * v);
    y[i] = kf_to_f16(v / (1 + kf_exp(-z)));
  }
}
