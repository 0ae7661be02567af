// kind: pieces by memcpy
// call: cat_fp32_channels
// why: each image's pieces are dense
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_size0", "grain": "1", "args": [{"slot": "tensors_0"}, {"slot": "tensors_1"}, {"slot": "tensors_2"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t plane = 221;
  for (int64_t n = begin; n < end; ++n) {
    auto* y = (float*)args[3].p + n * 13 * plane;
    __builtin_memcpy(y, (const float*)args[0].p + n * 5 * plane, 5 * plane * 4);
    __builtin_memcpy(y + 5 * plane, (const float*)args[1].p + n * 7 * plane, 7 * plane * 4);
    __builtin_memcpy(y + 12 * plane, (const float*)args[2].p + n * plane, plane * 4);
  }
}
