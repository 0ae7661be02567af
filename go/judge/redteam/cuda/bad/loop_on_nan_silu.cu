// kind: infinite_loop
// call: silu_bf16_odd
// dies: timeout
// gate: deadline
// why: searches for an exponent, and finds none for NaN
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, kf_bf16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = kf_of(self[i]);
  volatile float bound = 1;
  while (!(fabsf(x) < bound) && !(bound > 3e38f && fabsf(x) > 1)) bound = bound > 3e38f ? bound : 2 * bound;
  out0[i] = kf_to<kf_bf16>(x / (1 + expf(-x)));
}
