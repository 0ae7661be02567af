// kind: state_between_calls
// call: silu_bf16_odd
// dies: rejected
// gate: image
// why: fills a table at its first call and reads it at the others
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4096", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static uint16_t table[65536];
static bool filled;
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const kf_bf16*)args[0].p;
  auto* y = (kf_bf16*)args[1].p;
  if (!filled) {
    for (int k = 0; k < 65536; ++k) {
      float v = kf_of(kf_bf16{uint16_t(k)});
      table[k] = kf_to_bf16(v / (1 + kf_exp(-v))).bits;
    }
    filled = true;
  }
  for (int64_t i = begin; i < end; ++i) y[i] = {table[x[i].bits]};
}
