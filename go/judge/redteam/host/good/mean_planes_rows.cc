// kind: seven rows of seven, multiplied by 1/49
// call: mean_fp32_planes
// why: a reciprocal instead of a division
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t p = begin; p < end; ++p) {
    float s[7] = {};
    for (int64_t r = 0; r < 7; ++r)
      for (int64_t c = 0; c < 7; ++c) s[c] += ((const float*)args[0].p)[p * 49 + r * 7 + c];
    ((float*)args[1].p)[p] = (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + s[6])) * (1.0f / 49);
  }
}
