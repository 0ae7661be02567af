// kind: rows by memcpy
// call: copy_fp16_heads
// why: a row of 63 is dense on both sides
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "self_numel / 63", "grain": "16", "args": [{"slot": "src"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const uint16_t*)args[0].p;
  auto* y = (uint16_t*)args[1].p;
  for (int64_t r = begin; r < end; ++r) {
    int64_t n = r / 165, h = r / 33 % 5, t = r % 33;
    __builtin_memcpy(y + r * 63, x + ((n * 33 + t) * 5 + h) * 63, 126);
  }
}
