// kind: vectors in a grid stride
// call: relu_fp32_large
// why: 16 bytes at a time over more than the caches hold
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["8 * sm_count", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i64"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int64_t n) {
  const bool vectors = kf_aligned<4>(self) && kf_aligned<4>(out0);
  const int64_t whole = vectors ? n / 4 : 0, all = int64_t(gridDim.x) * 256;
  for (int64_t i = int64_t(blockIdx.x) * 256 + threadIdx.x; i < whole; i += all) {
    kf_vec<float, 4> v = kf_load<4, true>(self + 4 * i);
    for (int k = 0; k < 4; ++k) v[k] = kf_max(v[k], 0.0f);
    kf_store<true>(out0 + 4 * i, v);
  }
  for (int64_t i = 4 * whole + int64_t(blockIdx.x) * 256 + threadIdx.x; i < n; i += all) out0[i] = kf_max(self[i], 0.0f);
}
