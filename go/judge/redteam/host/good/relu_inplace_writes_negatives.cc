// kind: writes only what changes
// call: relu_bf16_inplace
// why: in place, an element that stays needs no store
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_numel", "grain": "4096", "args": [{"slot": "self"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (kf_bf16*)args[0].p;
  for (int64_t i = begin; i < end; ++i)
    if (kf_of(x[i]) < 0) x[i] = {0};
}
