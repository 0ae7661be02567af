// kind: masks of bits
// call: where_fp32_odd
// why: and, or on bit patterns keep NaN payloads
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "condition"}, {"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* c = (const uint8_t*)args[0].p;
  auto *a = (const uint32_t*)args[1].p, *b = (const uint32_t*)args[2].p;
  auto* y = (uint32_t*)args[3].p;
  for (int64_t i = begin; i < end; ++i) {
    uint32_t mask = -uint32_t(c[i] != 0);
    y[i] = (a[i] & mask) | (b[i] & ~mask);
  }
}
