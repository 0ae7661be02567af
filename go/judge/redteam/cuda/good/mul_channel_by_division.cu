// kind: an index by division
// call: mul_bf16_channel
// why: division of an index by one multiplication
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}, {"int": "self_size2*self_size3", "type": "i32"}, {"int": "ceildiv(4611686018427387904,self_size2*self_size3)", "type": "i64"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_bf16* self, const kf_bf16* other, kf_bf16* out0, int n, int plane, int64_t magic, int channels) {
  const kf_divider<int> planes = {plane, magic};
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = kf_to<kf_bf16>(kf_of(self[i]) * kf_of(other[planes.quotient(i) % channels]));
}
