// kind: rounding by a multiple of the unit
// call: copy_fp32_to_bf16
// why: ties to even from the integer's own low bit
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "src"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const uint32_t*)args[0].p;
  auto* y = (uint16_t*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    uint32_t v = x[i], high = v >> 16, low = v & 0xffff;
    bool nan = (v & 0x7fffffff) > 0x7f800000;
    bool up = low > 0x8000 || (low == 0x8000 && high & 1);
    y[i] = uint16_t(nan ? 0x7fc0 : high + up);
  }
}
