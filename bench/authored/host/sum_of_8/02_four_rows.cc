// Idea: four rows side by side, so that four chains of additions run at once.
// Improves on: 01_in_pairs

KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* x = static_cast<const float*>(args[0].p);
  float* out = static_cast<float*>(args[1].p);
  int64_t i = begin;
  for (; i + 4 <= end; i += 4) {
    const float* r = x + i * 8;
    float sum[4];
    for (int n = 0; n < 4; ++n) sum[n] = r[n * 8] + r[n * 8 + 4];
    for (int k = 1; k < 4; ++k)
      for (int n = 0; n < 4; ++n) sum[n] += r[n * 8 + k] + r[n * 8 + 4 + k];
    for (int n = 0; n < 4; ++n) out[i + n] = sum[n];
  }
  for (; i < end; ++i) {
    const float* r = x + i * 8;
    out[i] = ((r[0] + r[4]) + (r[2] + r[6])) + ((r[1] + r[5]) + (r[3] + r[7]));
  }
}
