// kind: the prelude's rounding
// call: copy_fp32_to_bf16
// why: vectors with a masked tail
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "8192", "args": [{"slot": "src"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t L = kf_lanes<float>;
  auto* x = (const float*)args[0].p;
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t i = begin; i < end; i += L) {
    int64_t n = end - i < L ? end - i : L;
    kf_store_n(y + i, kf_load_n(x + i, n), n);
  }
}
