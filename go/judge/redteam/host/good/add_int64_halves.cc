// kind: halves of 32 bits with a carry
// call: add_int64
// why: the carry of the low half is what the sum lost
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *x = (const uint32_t*)args[0].p, *o = (const uint32_t*)args[1].p;
  auto* y = (uint32_t*)args[2].p;
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t low = x[2 * i] + o[2 * i];
    y[2 * i] = low;
    y[2 * i + 1] = x[2 * i + 1] + o[2 * i + 1] + (low < o[2 * i] ? 1u : 0u);
  }
}
