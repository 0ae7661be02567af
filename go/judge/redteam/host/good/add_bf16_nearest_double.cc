// kind: bfloat16 by double
// call: add_bf16_odd
// why: a sum of two bfloat16 is exact in double or rounds twice to the same
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *x = (const kf_bf16*)args[0].p, *o = (const kf_bf16*)args[1].p;
  auto* y = (kf_bf16*)args[2].p;
  for (int64_t i = begin; i < end; ++i) y[i] = kf_to_bf16(float(double(kf_of(x[i])) + double(kf_of(o[i]))));
}
