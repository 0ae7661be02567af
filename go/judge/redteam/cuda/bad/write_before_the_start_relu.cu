// kind: out_of_bounds
// call: relu_fp16_odd
// dies: crash, wrong_value
// gate: guard_pages
// why: writes one element before the output
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = kf_to<kf_f16>(kf_max(kf_of(self[i]), 0.0f));
  if (i == 0) *(volatile uint16_t*)(out0 - 1) = 0;
}
