// kind: chunk_boundary
// call: avg_pool_fp16
// dies: wrong_value
// gate: values
// why: averages the last two outputs of each thread's part as one
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "64", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* y = (kf_f16*)args[1].p;
  for (int64_t o = begin; o < end; ++o) {
    int64_t plane = o / 224, r = o / 16 % 14, c = o % 16;
    if (o == end - 1 && end - begin > 1 && c > 0) c -= 1;
    auto* x = (const kf_f16*)args[0].p + plane * 896 + r * 64 + c * 2;
    y[o] = kf_to_f16((kf_of(x[0]) + kf_of(x[1]) + kf_of(x[32]) + kf_of(x[33])) * 0.25f);
  }
}
