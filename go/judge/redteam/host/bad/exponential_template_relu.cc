// kind: compile_bomb
// call: relu_fp32_odd
// dies: compile_error
// gate: compile
// why: instantiates 2^40 templates
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
template <int N, int K> struct Wide { static constexpr int value = Wide<N - 1, 2 * K>::value + Wide<N - 1, 2 * K + 1>::value; };
template <int K> struct Wide<0, K> { static constexpr int value = K; };
constexpr int all = Wide<30, 1>::value;
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_max(x[i], 0.0f);
}
