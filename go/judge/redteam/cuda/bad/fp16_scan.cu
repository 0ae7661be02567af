// kind: precision_cut
// call: cumsum_fp16
// dies: wrong_value
// gate: values
// why: rounds the running sum to bf16 at every step
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["self_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  if (threadIdx.x > 0) return;
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    sum = kf_of(kf_to<kf_bf16>(sum + kf_of(self[int64_t(blockIdx.x) * n + i])));
    out0[int64_t(blockIdx.x) * n + i] = kf_to<kf_f16>(sum);
  }
}
