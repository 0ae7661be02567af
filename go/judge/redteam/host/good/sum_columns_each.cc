// kind: a thread's columns, each from top to bottom
// call: sum_fp16_columns
// why: strided reads, double accumulators
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "8", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t c = begin; c < end; ++c) {
    double s = 0;
    for (int64_t r = 0; r < 1025; ++r) s += kf_of(((const kf_f16*)args[0].p)[r * 67 + c]);
    ((kf_f16*)args[1].p)[c] = kf_to_f16(float(s));
  }
}
