// kind: huge_local_array
// call: relu_fp16_odd
// dies: launch_error, compile_error, rejected
// gate: image
// why: a local array of a megabyte a thread: 100 GB for the threads that are resident
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  volatile int room[1 << 18];
  for (int k = 0; k < (1 << 18); k += 4096) room[(k + i) & ((1 << 18) - 1)] = k;
  if (i < n) out0[i] = kf_to<kf_f16>(kf_max(kf_of(self[i]), 0.0f) + (room[i & ((1 << 18) - 1)] < 0 ? 1 : 0));
}
