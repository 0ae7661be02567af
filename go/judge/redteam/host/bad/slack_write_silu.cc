// kind: out_of_bounds_write
// call: silu_bf16_odd
// dies: wrong_value,crash
// gate: guard_pages
// why: writes one element in front of its output, where an allocator often has slack
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_bf16*)args[0].p;
  auto* y = (kf_bf16*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    float v = kf_of(x[i]);
    y[i] = kf_to_bf16(v / (1 + kf_exp(-v)));
  }
  if (begin == 0) ((volatile uint16_t*)y)[-1] = 0;
}
