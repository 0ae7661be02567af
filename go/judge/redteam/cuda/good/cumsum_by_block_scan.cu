// kind: block scan
// call: cumsum_int64
// why: 256 columns at a time, with what lies before them carried along
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["self_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const int64_t* self, int64_t* out0, int n) {
  const int64_t* x = self + int64_t(blockIdx.x) * n;
  int64_t before = 0;
  for (int begin = 0; begin < n; begin += 256) {
    const int i = begin + threadIdx.x;
    const int64_t mine = i < n ? x[i] : 0;
    int64_t all;
    const int64_t below = kf_block_scan<256>(mine, int64_t(0), kf_sum_of(), all);
    if (i < n) out0[int64_t(blockIdx.x) * n + i] = before + below + mine;
    before += all;
  }
}
