// kind: a tree of halves in float
// call: mean_bf16_rows
// why: the same tree as one that rounds at each level, but rounded once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "4", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
static float tree(const kf_bf16* x, int64_t n) { return n == 1 ? kf_of(x[0]) : tree(x, n / 2) + tree(x + n / 2, n - n / 2); }

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  for (int64_t r = begin; r < end; ++r) ((kf_bf16*)args[1].p)[r] = kf_to_bf16(tree((const kf_bf16*)args[0].p + r * 1027, 1027) / 1027);
}
