// kind: fp16_accumulate
// call: sum_fp16_columns
// dies: wrong_value
// gate: values
// why: adds up columns in float16
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t c = begin; c < end; ++c) {
    kf_f16 s = {0};
    for (int64_t r = 0; r < 1025; ++r) s = kf_to_f16(kf_of(s) + kf_of(x[r * 67 + c]));
    y[c] = s;
  }
}
