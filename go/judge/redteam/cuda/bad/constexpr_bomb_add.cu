// kind: constexpr_bomb
// call: add_fp32_odd
// dies: compile_error
// gate: compile
// why: a constant expression that takes a trillion steps
// spec: {"schema": 1, "constants": {}, "workspaces": [], "kernels": [{"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0", "args": [{"slot": "self"}, {"slot": "other"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i32"}]}]}
constexpr long count(long to) {
  long steps = 0;
  for (long i = 0; i < to; ++i) steps += i % 3;
  return steps;
}
static_assert(count(1000000000000) != 0, "counted");

KF_KERNEL(256) void kf_main(const float* self, const float* other, float* out0, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out0[i] = self[i] + other[i];
}
