// kind: race
// call: sum_fp32_all
// dies: wrong_value
// gate: repeats
// why: adds a hundred parts with an atomic in whatever order the threads come: other bits each time
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "1", "args": [{"slot": "out0"}]}, {"entry": "kf_add", "work": "self_numel", "grain": "1024", "args": [{"slot": "self"}, {"slot": "out0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) { *(float*)args[0].p = 0; }
KF_ENTRY void kf_add(int64_t begin, int64_t end, const kf_arg* args) {
  auto* x = (const float*)args[0].p;
  auto* y = (uint32_t*)args[1].p;
  for (int64_t i = begin; i < end; i += 1001) {
    double s = 0;
    for (int64_t k = i; k < end && k < i + 1001; ++k) s += x[k];
    uint32_t seen = __atomic_load_n(y, __ATOMIC_RELAXED), next;
    do next = kf_cast_bits<uint32_t>(kf_cast_bits<float>(seen) + float(s));
    while (!__atomic_compare_exchange_n(y, &seen, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
}
