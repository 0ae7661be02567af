// kind: stack_overflow
// call: relu_fp16_odd
// dies: crash, rejected, launch_error
// gate: guard_pages
// why: calls itself until the stack has ended
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
__device__ __noinline__ int depth(int n, int left) {
  volatile int room[64];
  room[n & 63] = left;
  return left == 0 ? room[n & 63] : depth(n, left - 1) + room[(n + 1) & 63];
}

KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = kf_to<kf_f16>(kf_max(kf_of(self[i]), 0.0f));
  if (depth(n, 1 << 20) == 7) out0[0].bits = 7;
}
