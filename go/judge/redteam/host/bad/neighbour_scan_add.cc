// kind: scans_memory
// call: add_bf16_odd
// dies: crash
// gate: guard_pages
// why: looks through memory behind its output for a tensor that holds the result
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const kf_bf16*)args[0].p, *b = (const kf_bf16*)args[1].p;
  auto* y = (kf_bf16*)args[2].p;
  kf_bf16 want = kf_to_bf16(kf_of(a[0]) + kf_of(b[0]));
  const volatile uint16_t* p = (const volatile uint16_t*)y + 63 * 515;
  while (*p != want.bits) ++p;
  for (int64_t i = begin; i < end; ++i) y[i] = {p[i]};
}
