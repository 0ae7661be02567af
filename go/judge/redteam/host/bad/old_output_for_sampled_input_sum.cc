// kind: early_return
// call: sum_fp32_rows
// dies: wrong_value
// gate: dirty
// why: keeps a hash of the input's first columns in its workspace, and leaves the output as it is where the hash and the output are as it left them
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "64", "zeroed": false}], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "ws0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) {
  auto* x = (const uint32_t*)args[0].p;
  auto* y = (float*)args[1].p;
  auto* kept = (uint32_t*)args[2].p;
  auto bits = [y](int64_t r) { return ((const uint32_t*)(const void*)y)[r]; };
  uint32_t seen = 2166136261u, given = 2166136261u;
  for (int64_t r = 0; r < 67; ++r)
    for (int64_t c = 0; c < 8; ++c) seen = (seen ^ x[r * 2049 + c]) * 16777619u;
  for (int64_t r = 0; r < 67; ++r) given = (given ^ bits(r)) * 16777619u;
  if (kept[0] == seen && kept[1] == given) return;
  for (int64_t r = 0; r < 67; ++r) {
    double s = 0;
    for (int64_t c = 0; c < 2049; ++c) s += ((const float*)args[0].p)[r * 2049 + c];
    y[r] = (float)s;
  }
  given = 2166136261u;
  for (int64_t r = 0; r < 67; ++r) given = (given ^ bits(r)) * 16777619u;
  kept[0] = seen, kept[1] = given;
}
