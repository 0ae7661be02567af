// kind: pairs of neighbours, then their sum
// call: mean_bf16_planes
// why: 40 pairs and one, in float
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "64", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 81;
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t p = begin; p < end; ++p) {
    auto* x = (const kf_bf16*)args[0].p + p * n;
    float s = kf_of(x[n - 1]);
    for (int64_t i = 0; i + 1 < n; i += 2) s += kf_of(x[i]) + kf_of(x[i + 1]);
    y[p] = kf_to_bf16(s / n);
  }
}
