// kind: nine columns, each in double
// call: mean_bf16_planes
// why: a column of a plane is one sum, and their sum is divided
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "64", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t p = begin; p < end; ++p) {
    auto* x = (const kf_bf16*)args[0].p + p * 81;
    double s = 0;
    for (int64_t column = 0; column < 9; ++column) {
      double part = 0;
      for (int64_t row = 0; row < 9; ++row) part += kf_of(x[row * 9 + column]);
      s += part;
    }
    y[p] = kf_to_bf16(float(s / 81));
  }
}
