// kind: reciprocal with a Newton step
// call: silu_fp32_odd
// why: the quotient is mended by its own remainder
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = self[i], below = 1 + expf(-x);
  if (!(below < 0x1p100f)) {
    out0[i] = x / below;
    return;
  }
  const float inverse = kf_fast_reciprocal(below), first = x * inverse;
  const float mended = __fmaf_rn(__fmaf_rn(-first, below, x), inverse, first);
  out0[i] = fabsf(x) < 0x1p-60f || fabsf(x) > 0x1p100f ? x / below : mended;
}
