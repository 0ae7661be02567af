// kind: Welford, merged by Chan
// call: layer_norm_fp32_offset
// why: one pass with a running mean, parts joined by their counts
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "input"}, {"slot": "weight"}, {"slot": "bias"}, {"slot": "out0"}, {"slot": "out1"}, {"slot": "out2"}, {"int": "input_size1", "type": "i32"}]}]}
struct Moments {
  float count, mean, squares;
};
struct merge_of {
  KF_INLINE Moments operator()(Moments a, Moments b) const {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const float count = a.count + b.count, apart = b.mean - a.mean;
    return {count, a.mean + apart * (b.count / count), a.squares + b.squares + apart * apart * (a.count * b.count / count)};
  }
};
KF_INLINE Moments with(Moments m, float x) {
  m.count += 1;
  const float apart = x - m.mean;
  m.mean += apart / m.count;
  m.squares += apart * (x - m.mean);
  return m;
}

KF_KERNEL(256) void kf_main(const float* input, const float* weight, const float* bias, float* out0, float* out1, float* out2, int n) {
  const float* x = input + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  Moments m = {0, 0, 0};
  for (int i = threadIdx.x; i < n; i += 256) m = with(m, x[i]);
  m = kf_block_fold<256>(m, merge_of());
  const float mean = m.mean, rstd = rsqrtf(m.squares / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += 256) y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
  if (threadIdx.x == 0) {
    out1[blockIdx.x] = mean;
    out2[blockIdx.x] = rstd;
  }
}
