// kind: strides as arguments
// call: mul_fp32_strided
// why: each operand has its own row stride
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}, {"int": "self_size1", "type": "i32"}, {"int": "self_stride0", "type": "i32"}, {"int": "other_stride0", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n, int columns, int a, int b) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i / columns * a + i % columns] * other[i / columns * b + i % columns];
}
