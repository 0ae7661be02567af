// kind: bf16_accumulate
// call: mean_bf16_rows
// dies: wrong_value
// gate: values
// why: adds blocks of 32 in float and the blocks in bfloat16
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 1027;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* y = (kf_bf16*)args[1].p + r * 1;
    kf_bf16 s = {0};
    for (int64_t i = 0; i < n; i += 32) {
      float part = 0;
      for (int64_t k = i; k < n && k < i + 32; ++k) part += kf_of(x[k]);
      s = kf_to_bf16(kf_of(s) + part);
    }
    *y = kf_to_bf16(kf_of(s) / n);
  }
}
