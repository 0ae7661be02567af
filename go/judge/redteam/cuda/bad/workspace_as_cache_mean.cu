// kind: cache_in_workspace
// call: mean_bf16_rows
// dies: wrong_value
// gate: dirty
// why: keeps each row's mean in its workspace under a hash of 16 elements, and finds it there at the next call if the allocator is kind
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "self_size0 * 8", "zeroed": false}], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "ws0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, unsigned* kept, int n) {
  const kf_bf16* x = self + int64_t(blockIdx.x) * n;
  unsigned hash = 2166136261u;
  for (int i = 0; i < 16; ++i) hash = (hash ^ x[i * 64].bits) * 16777619u;
  unsigned* mine = kept + 2 * blockIdx.x;
  if (mine[0] == hash) {
    if (threadIdx.x == 0) out0[blockIdx.x] = kf_bf16{(unsigned short)mine[1]};
    return;
  }
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += kf_of(x[i]);
  sum = kf_block_fold<256>(sum, kf_sum_of());
  if (threadIdx.x == 0) {
    const kf_bf16 mean = kf_to<kf_bf16>(sum / n);
    out0[blockIdx.x] = mean;
    mine[0] = hash, mine[1] = mean.bits;
  }
}
