// kind: rows swept over, a sum a column
// call: sum_fp16_columns
// why: reads along memory, keeps 67 floats
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) {
  auto* x = (const kf_f16*)args[0].p;
  auto* y = (kf_f16*)args[1].p;
  float s[67] = {};
  for (int64_t r = 0; r < 1025; ++r)
    for (int64_t c = 0; c < 67; ++c) s[c] += kf_of(x[r * 67 + c]);
  for (int64_t c = 0; c < 67; ++c) y[c] = kf_to_f16(s[c]);
}
