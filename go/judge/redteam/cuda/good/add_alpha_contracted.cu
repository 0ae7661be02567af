// kind: fused multiply and add
// call: add_fp32_alpha
// why: product and sum are rounded once
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}, {"float": "0x1.3333333333333p-2", "type": "f32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n, float alpha) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = __fmaf_rn(other[i], alpha, self[i]);
}
