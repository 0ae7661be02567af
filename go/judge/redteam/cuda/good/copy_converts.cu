// kind: conversion
// call: copy_fp32_to_bf16
// why: rounds to nearest even
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(self_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "src"}, {"slot": "self"}, {"int": "self_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* src, kf_bf16* self, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) self[i] = kf_to<kf_bf16>(src[i]);
}
