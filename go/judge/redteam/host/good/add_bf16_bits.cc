// kind: bfloat16 by shifts
// call: add_bf16_odd
// why: widens by a shift and rounds by integer arithmetic
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto *a = (const uint16_t*)args[0].p, *b = (const uint16_t*)args[1].p;
  auto* y = (uint16_t*)args[2].p;
  for (int64_t i = begin; i < end; ++i) {
    float s = kf_cast_bits<float>(uint32_t(a[i]) << 16) + kf_cast_bits<float>(uint32_t(b[i]) << 16);
    uint32_t u = kf_cast_bits<uint32_t>(s), odd = u >> 16 & 1;
    y[i] = s != s ? uint16_t(0x7fc0) : uint16_t((u + 0x7fff + odd) >> 16);
  }
}
