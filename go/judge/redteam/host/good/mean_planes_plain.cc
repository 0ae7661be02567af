// kind: a float sum of 49
// call: mean_fp32_planes
// why: divides at the end
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t p = begin; p < end; ++p) {
    float s = 0;
    for (int64_t i = 0; i < 49; ++i) s += ((const float*)args[0].p)[p * 49 + i];
    ((float*)args[1].p)[p] = s / 49;
  }
}
