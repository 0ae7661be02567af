// kind: tiles of 16 by 16
// call: copy_fp32_transposed
// why: tiles at the border are cut
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "ceildiv(self_size0, 16)", "grain": "1", "args": [{"slot": "src"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const uint32_t*)args[0].p;
  auto* y = (uint32_t*)args[1].p;
  for (int64_t t = begin; t < end; ++t)
    for (int64_t c0 = 0; c0 < 259; c0 += 16)
      for (int64_t r = t * 16; r < t * 16 + 16 && r < 131; ++r)
        for (int64_t c = c0; c < c0 + 16 && c < 259; ++c) y[r * 259 + c] = x[c * 131 + r];
}
