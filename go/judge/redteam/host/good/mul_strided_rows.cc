// kind: row by row with the strides of the call
// call: mul_fp32_strided
// why: strides as arguments of the spec
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_size0", "grain": "16", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "self_stride0"}, {"int": "other_stride0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const float*)args[0].p, *b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < 131; ++c) y[r * 131 + c] = a[r * args[3].i + c] * b[r * args[4].i + c];
}
