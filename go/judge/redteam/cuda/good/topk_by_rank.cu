// kind: places by counting
// call: topk_bf16_smallest
// why: an element's place is how many are better; those that have one below k are written
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["self_size0", "1", "1"], "block": ["128", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "out1"}, {"int": "self_size1", "type": "i32"}, {"int": "out0_size1", "type": "i32"}]}]}
KF_INLINE bool better(float a, float b) { return a < b || (a == a && b != b); }
KF_KERNEL(128) void kf_main(const kf_bf16* self, kf_bf16* out0, int64_t* out1, int n, int k) {
  const kf_bf16* x = self + int64_t(blockIdx.x) * n;
  for (int i = threadIdx.x; i < n; i += 128) {
    int place = 0;
    for (int j = 0; j < n; ++j) place += better(kf_of(x[j]), kf_of(x[i])) || (j < i && !better(kf_of(x[i]), kf_of(x[j])));
    if (place < k) {
      out0[int64_t(blockIdx.x) * k + place] = x[i];
      out1[int64_t(blockIdx.x) * k + place] = i;
    }
  }
}
