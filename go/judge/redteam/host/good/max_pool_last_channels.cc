// kind: channels last: all channels of a window together
// call: max_pool_bf16_last
// why: runs along the channels
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_size0 * out0_size2 * out0_size3", "grain": "16", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  constexpr int64_t H = 15, W = 13, OH = 8, OW = 7, C = 17;
  for (int64_t o = begin; o < end; ++o) {
    auto* x = (const kf_bf16*)args[0].p + o / (OH * OW) * H * W * C;
    float best[C];
    int64_t at[C];
    for (int64_t c = 0; c < C; ++c) at[c] = -1;
    for (int64_t r = o / OW % OH * 2 - 1; r < o / OW % OH * 2 + 2; ++r)
      for (int64_t k = o % OW * 2 - 1; k < o % OW * 2 + 2; ++k) {
        if (r < 0 || k < 0 || r >= H || k >= W) continue;
        for (int64_t c = 0; c < C; ++c) {
          float v = kf_of(x[(r * W + k) * C + c]);
          if (at[c] < 0 || v > best[c] || v != v) best[c] = v, at[c] = r * W + k;
        }
      }
    for (int64_t c = 0; c < C; ++c) ((kf_bf16*)args[1].p)[o * C + c] = kf_to_bf16(best[c]), ((int64_t*)args[2].p)[o * C + c] = at[c];
  }
}
