// kind: double precision
// call: gelu_bf16_odd
// why: rounded from double by way of float
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const double x = kf_of(self[i]);
  out0[i] = kf_to<kf_bf16>(float(0.5 * x * erfc(-x * 0.70710678118654752)));
}
