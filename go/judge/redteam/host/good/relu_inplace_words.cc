// kind: two elements in a word
// call: relu_bf16_inplace
// why: masks on 32 bits, the odd element apart
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": [{"slot": "self"}, {"int": "self_numel"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) {
  auto* x = (uint16_t*)args[0].p;
  int64_t n = args[1].i;
  auto keep = [](uint32_t v) { return v & 0x8000 && (v & 0x7fff) <= 0x7f80 ? 0u : v; };
  for (int64_t i = 0; i + 2 <= n; i += 2) {
    uint32_t both;
    __builtin_memcpy(&both, x + i, 4);
    both = keep(both & 0xffff) | keep(both >> 16) << 16;
    __builtin_memcpy(x + i, &both, 4);
  }
  if (n % 2) x[n - 1] = uint16_t(keep(x[n - 1]));
}
