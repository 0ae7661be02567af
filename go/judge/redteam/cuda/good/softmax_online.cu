// kind: running maximum and sum
// call: softmax_fp32
// why: one pass finds maximum and sum: the sum is scaled whenever the maximum grows
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["out0_size0", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "self_size1", "type": "i32"}]}]}
struct Run {
  float top, sum;
};
struct join_of {
  KF_INLINE Run operator()(Run a, Run b) const {
    const float top = kf_max(a.top, b.top);
    const float left = a.sum == 0 ? 0 : a.sum * expf(a.top - top), right = b.sum == 0 ? 0 : b.sum * expf(b.top - top);
    return {top, left + right};
  }
};

KF_KERNEL(256) void kf_main(const float* self, float* out0, int n) {
  const float* x = self + int64_t(blockIdx.x) * n;
  float* y = out0 + int64_t(blockIdx.x) * n;
  Run run = {-kf_infinity<float>(), 0};
  for (int i = threadIdx.x; i < n; i += 256) {
    const float next = kf_max(run.top, x[i]);
    run.sum = (run.sum == 0 ? 0 : run.sum * expf(run.top - next)) + (next == -kf_infinity<float>() ? 0 : expf(x[i] - next));
    run.top = next;
  }
  run = kf_block_fold<256>(run, join_of());
  const float top = run.top, sum = run.sum;
  for (int i = threadIdx.x; i < n; i += 256) y[i] = expf(x[i] - top) / sum;
}
