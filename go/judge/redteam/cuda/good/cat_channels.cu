// kind: one thread an element
// call: cat_fp32_channels
// why: three inputs, each of them one run of every image
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "tensors_0"}, {"slot": "tensors_1"}, {"slot": "tensors_2"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}, {"int": "tensors_0_size1", "type": "i32"}, {"int": "tensors_1_size1", "type": "i32"}, {"int": "tensors_2_size1", "type": "i32"}, {"int": "out0_size2*out0_size3", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* a, const float* b, const float* c, float* out0, int n, int ca, int cb, int cc, int plane) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int all = (ca + cb + cc) * plane, image = i / all, at = i % all;
  if (at < ca * plane)
    out0[i] = a[image * ca * plane + at];
  else if (at < (ca + cb) * plane)
    out0[i] = b[image * cb * plane + at - ca * plane];
  else
    out0[i] = c[image * cc * plane + at - (ca + cb) * plane];
}
