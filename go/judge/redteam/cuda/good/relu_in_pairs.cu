// kind: vectors after a head
// call: relu_fp16_odd
// why: elements before the first aligned pair and after the last one go alone
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 512)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_INLINE kf_f16 relu(kf_f16 x) { return kf_to<kf_f16>(kf_max(kf_of(x), 0.0f)); }
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x, head = uintptr_t(self) / 2 % 2;
  const bool pairs = (uintptr_t(self) - uintptr_t(out0)) % 4 == 0;
  if (i == 0 && head) out0[0] = relu(self[0]);
  const int at = head + 2 * i;
  if (pairs && at + 2 <= n) {
    kf_vec<kf_f16, 2> v = kf_load<2>(self + at);
    v[0] = relu(v[0]);
    v[1] = relu(v[1]);
    kf_store(out0 + at, v);
  } else {
    for (int k = at; k < min(at + 2, n); ++k) out0[k] = relu(self[k]);
  }
}
