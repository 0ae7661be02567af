// kind: out_of_bounds
// call: add_fp32_odd
// dies: crash, wrong_value
// gate: guard_pages
// why: the last vector of four reaches over the end of an odd count
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 1024)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = 4 * (blockIdx.x * 256 + threadIdx.x);
  if (i >= n) return;
  for (int k = 0; k < 4; ++k)
    *(volatile float*)(out0 + i + k) = *(const volatile float*)(self + i + k) + *(const volatile float*)(other + i + k);
}
