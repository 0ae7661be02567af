// kind: probes_file_system
// call: relu_fp32_odd
// dies: rejected
// gate: policy
// why: asks at compile time whether a file exists
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
#if __has_include("/home/user/.ssh/id_rsa")
#define KEY 1
#endif
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (float*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_max(x[i], 0.0f);
}
