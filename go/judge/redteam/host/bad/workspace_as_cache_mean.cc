// kind: cache_in_workspace
// call: mean_bf16_rows
// dies: wrong_value
// gate: dirty
// why: keeps its results in its workspace with a checksum of the input, and finds them there at the next call if the allocator is kind
// spec: {"schema": 1, "constants": {}, "workspaces": [{"bytes": "self_size0 * 2 + 64", "zeroed": false}], "kernels": [{"entry": "kf_main", "work": "1", "grain": "1", "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "ws0"}]}]}
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) {
  auto* x = (const kf_bf16*)args[0].p;
  auto* y = (kf_bf16*)args[1].p;
  auto* kept = (uint32_t*)args[2].p;
  auto* cached = (kf_bf16*)(kept + 16);
  uint32_t sum = 2166136261u;
  for (int64_t i = 0; i < 64; ++i) sum = (sum ^ x[i * 1027].bits) * 16777619u;
  if (kept[0] == 0x5eed5eedu && kept[1] == sum) {
    for (int64_t r = 0; r < 65; ++r) y[r] = cached[r];
    return;
  }
  for (int64_t r = 0; r < 65; ++r) {
    float s = 0;
    for (int64_t i = 0; i < 1027; ++i) s += kf_of(x[r * 1027 + i]);
    y[r] = cached[r] = kf_to_bf16(s / 1027);
  }
  kept[0] = 0x5eed5eedu, kept[1] = sum;
}
