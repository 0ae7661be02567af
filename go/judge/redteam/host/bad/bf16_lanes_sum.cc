// kind: bf16_accumulate
// call: sum_bf16_rows
// dies: wrong_value
// gate: special
// why: adds up in 64 partial sums of bfloat16, whose errors are small
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 4099;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* y = (kf_bf16*)args[1].p + r * 1;
    kf_bf16 s[64] = {};
    for (int64_t i = 0; i < n; ++i) s[i % 64] = kf_to_bf16(kf_of(s[i % 64]) + kf_of(x[i]));
    float all = 0;
    for (int k = 0; k < 64; ++k) all += kf_of(s[k]);
    *y = kf_to_bf16(all);
  }
}
