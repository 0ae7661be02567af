// kind: several elements a thread
// call: silu_fp16_odd
// why: four elements that lie side by side
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 1024)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const kf_f16* self, kf_f16* out0, int n) {
  const int first = 4 * (blockIdx.x * 256 + threadIdx.x);
  for (int i = first; i < min(first + 4, n); ++i) {
    const float x = kf_of(self[i]);
    out0[i] = kf_to<kf_f16>(x / (1 + expf(-x)));
  }
}
