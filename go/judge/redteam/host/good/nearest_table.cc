// kind: a table of columns in a workspace
// call: nearest_fp32
// why: the first kernel makes the table, the second uses it
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "51 * 4", "zeroed": false}], "kernels": [{"entry": "kf_main", "work": "51", "grain": "64", "args": [{"slot": "ws0"}]}, {"entry": "kf_rows", "work": "out0_numel / 51", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "ws0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t c = begin; c < end; ++c) ((int32_t*)args[0].p)[c] = int32_t(c * 17 / 51);
}
KF_ENTRY void kf_rows(int64_t begin, int64_t end, const kf_arg* args) {
  auto* at = (const int32_t*)args[2].p;
  for (int64_t r = begin; r < end; ++r) {
    auto* x = (const uint32_t*)args[0].p + (r / 26 * 13 + r % 26 / 2) * 17;
    for (int64_t c = 0; c < 51; ++c) ((uint32_t*)args[1].p)[r * 51 + c] = x[at[c]];
  }
}
