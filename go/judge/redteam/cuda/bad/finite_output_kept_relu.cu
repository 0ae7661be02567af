// kind: previous_output
// call: relu_fp16_odd
// dies: wrong_value
// gate: poison
// why: replaces NaN alone: a first poison that is a NaN is overwritten with the right value, a finite one stays
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n && kf_of(out0[i]) != kf_of(out0[i])) out0[i] = kf_to<kf_f16>(kf_max(kf_of(self[i]), 0.0f));
}
