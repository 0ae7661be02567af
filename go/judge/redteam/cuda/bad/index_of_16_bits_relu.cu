// kind: index_overflow
// call: relu_fp32_large
// dies: wrong_value
// gate: poison
// why: the index wraps at 65,536: what comes after is never written
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const uint16_t k = i;
  if (k < n) out0[k] = kf_max(self[k], 0.0f);
}
