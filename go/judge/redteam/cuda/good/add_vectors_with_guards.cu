// kind: vectors with guards
// call: add_fp32_odd
// why: 16-byte accesses where all three addresses allow them, single elements for the rest
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 1024)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = 4 * (blockIdx.x * 256 + threadIdx.x);
  if (i + 4 <= n && kf_aligned<4>(self) && kf_aligned<4>(other) && kf_aligned<4>(out0)) {
    kf_vec<float, 4> a = kf_load<4>(self + i);
    const kf_vec<float, 4> b = kf_load<4>(other + i);
    for (int k = 0; k < 4; ++k) a[k] += b[k];
    kf_store(out0 + i, a);
    return;
  }
  for (int k = i; k < min(i + 4, n); ++k) out0[k] = self[k] + other[k];
}
