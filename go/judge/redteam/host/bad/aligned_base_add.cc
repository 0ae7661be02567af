// kind: unaligned_vector
// call: add_fp32_odd
// dies: crash
// gate: launch
// why: takes tensors for aligned to 64 bytes, which views are not
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "16384", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  auto* a = (const float*)args[0].p;
  auto* b = (const float*)args[1].p;
  auto* y = (float*)args[2].p;
  int64_t i = begin;
  for (; i + 4 <= end; i += 4) *(volatile __m128*)__builtin_assume_aligned(y + i, 16) = _mm_add_ps(_mm_load_ps(a + i + 1 - 1), _mm_loadu_ps(b + i));
  for (; i < end; ++i) y[i] = a[i] + b[i];
  if (begin == 0 && end > 8) *(volatile __m128*)(y + 1) = _mm_add_ps(_mm_loadu_ps(a + 1), _mm_loadu_ps(b + 1));
}
