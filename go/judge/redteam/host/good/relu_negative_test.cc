// kind: writes 0 where an element is below it
// call: relu_fp16_odd
// why: compares with < so that NaN falls through
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_of(x[i]) < 0 ? kf_f16{0} : x[i];
}
