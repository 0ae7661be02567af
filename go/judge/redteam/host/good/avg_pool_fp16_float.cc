// kind: float16 by float
// call: avg_pool_fp16
// why: four elements, a quarter
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "512", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const kf_f16*)args[0].p + o / 224 * 896 + o / 16 % 14 * 64 + o % 16 * 2;
    ((kf_f16*)args[1].p)[o] = kf_to_f16((kf_of(x[0]) + kf_of(x[1]) + kf_of(x[32]) + kf_of(x[33])) * 0.25f);
  }
}
