// kind: bfloat16 by float
// call: sum_bf16_rows
// why: 16 chains in float, rounded once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t n = 4099;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const kf_bf16*)args[0].p + r * n;
    auto* y = (kf_bf16*)args[1].p + r * 1;
    float s[16] = {};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
      for (int k = 0; k < 16; ++k) s[k] += kf_of(x[i + k]);
    for (; i < n; ++i) s[0] += kf_of(x[i]);
    for (int step = 8; step; step /= 2)
      for (int k = 0; k < step; ++k) s[k] += s[k + step];
    *y = kf_to_bf16(s[0]);
  }
}
