// kind: own exponential
// call: silu_fp32_odd
// why: an exponential of its own, with the argument reduced in two steps
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
// exp by Cody and Waite: x = k log 2 + r in two steps, and a polynomial of degree 7 for exp(r); 2^k goes in as two factors, so that neither
// overflows where the result does not.
KF_INLINE float own_exp(float x) {
  if (!(x < 89)) return x != x ? x : kf_infinity<float>();
  if (x < -104) return 0;
  const float k = rintf(x * 0x1.715476p+0f);
  const float r = __fmaf_rn(k, 0x1.7f7d1cp-20f * -1, __fmaf_rn(k, -0x1.62e4p-1f, x));
  float p = 0x1.a01a02p-13f;
  p = __fmaf_rn(p, r, 0x1.6c16c2p-10f);
  p = __fmaf_rn(p, r, 0x1.111112p-7f);
  p = __fmaf_rn(p, r, 0x1.555556p-5f);
  p = __fmaf_rn(p, r, 0x1.555556p-3f);
  p = __fmaf_rn(p, r, 0.5f);
  p = __fmaf_rn(__fmul_rn(r, r), p, r);
  const int low = int(k) / 2, high = int(k) - low;
  return __fadd_rn(1, p) * __uint_as_float(uint32_t(low + 127) << 23) * __uint_as_float(uint32_t(high + 127) << 23);
}
KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i] / (1 + own_exp(-self[i]));
}
