// kind: overflow_on_the_way
// call: sum_fp16_columns
// dies: wrong_value
// gate: special
// why: adds up in float and keeps large parts of 41 rows in float16 times 64, which overflow where the sum does not
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  for (int64_t c = begin; c < end; ++c) {
    float all = 0;
    for (int64_t r = 0; r < 1025; r += 41) {
      float part = 0, scaled = 0;
      for (int64_t k = r; k < r + 41; ++k) part += kf_of(x[k * 67 + c]);
      scaled = kf_abs(part) > 1000 ? kf_of(kf_to_f16(part * 64)) / 64 : part;
      all += scaled;
    }
    y[c] = kf_to_f16(all);
  }
}
