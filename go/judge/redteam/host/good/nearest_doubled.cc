// kind: each element four times
// call: nearest_bf16
// why: for a factor of 2 exactly
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_numel / 17", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const uint16_t*)args[0].p + r * 17;
    auto* y = (uint16_t*)args[1].p + r * 68;
    for (int64_t c = 0; c < 34; ++c) y[c] = x[c / 2];
    __builtin_memcpy(y + 34, y, 68);
  }
}
