// kind: one thread a row, in order
// call: mean_fp32_planes
// why: a plane is short enough for one thread
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 64)", "1", "1"], "block": ["64", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size2*self_size3", "type": "i32"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(64) void kf_main(const float* self, float* out0, int count, int planes) {
  const int plane = blockIdx.x * 64 + threadIdx.x;
  if (plane >= planes) return;
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += self[plane * count + i];
  out0[plane] = sum / count;
}
