// kind: one element at a time
// call: copy_fp32_transposed
// why: reads down, writes along
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "src"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const uint32_t*)args[0].p;
  auto* y = (uint32_t*)args[1].p;
  for (int64_t i = begin; i < end; ++i) y[i] = x[i % 259 * 131 + i / 259];
}
