// kind: a plane a block
// call: mul_bf16_channel
// why: a block has one factor
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["self_size0*self_size1", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "self_size2*self_size3", "type": "i32"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, const kf_bf16* other, kf_bf16* out0, int plane, int channels) {
  const float factor = kf_of(other[blockIdx.x % channels]);
  for (int i = blockIdx.x * plane + threadIdx.x; i < (blockIdx.x + 1) * plane; i += 256) out0[i] = kf_to<kf_bf16>(kf_of(self[i]) * factor);
}
