// kind: the sign bit of an integer, unless the rest says NaN
// call: relu_fp16_odd
// why: no arithmetic on floats at all
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const uint16_t*)args[0].p;
  auto* y = (uint16_t*)args[1].p;
  for (int64_t i = begin; i < end; ++i) {
    uint16_t v = x[i];
    bool nan = (v & 0x7fff) > 0x7c00;
    y[i] = v & 0x8000 && !nan ? 0 : v;
  }
}
