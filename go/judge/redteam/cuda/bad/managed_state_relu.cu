// kind: counts_calls
// call: relu_fp16_odd
// dies: rejected
// gate: policy
// why: managed memory is shared with the host process
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
__device__ __managed__ unsigned calls;

KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i == 0) ++calls;
  if (i < n) out0[i] = kf_to<kf_f16>(kf_max(kf_of(self[i]), 0.0f));
}
