// kind: one kernel a piece
// call: cat_bf16_last
// why: two kernels in order
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_size0 * 31", "grain": "4096", "args": [{"slot": "tensors_0"}, {"slot": "out0"}]}, {"entry": "kf_second", "work": "out0_size0 * 66", "grain": "4096", "args": [{"slot": "tensors_1"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t i = begin; i < end; ++i) ((uint16_t*)args[1].p)[i / 31 * 97 + i % 31] = ((const uint16_t*)args[0].p)[i];
}
KF_ENTRY void kf_second(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t i = begin; i < end; ++i) ((uint16_t*)args[1].p)[i / 66 * 97 + 31 + i % 66] = ((const uint16_t*)args[0].p)[i];
}
