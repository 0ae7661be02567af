// What the compiler's own headers and the instructions of the prelude are on the CPU: the second half of blocks.h.
#pragma once

// ---- what the compiler's own headers have --------------------------------------------------------------------------------------------

static void __syncthreads() { wait(&here->gate); }
static uint32_t lane_of(uint32_t t) { return t % 32; }
static uint32_t shuffled(uint32_t value, int from) {
  const uint32_t warp = current / 32, lane = lane_of(current);
  Gate* gate = &here->warp_gates[warp];
  uint32_t* slots = here->exchange[gate->passed % 2] + warp * 32;
  slots[lane] = value;
  const uint32_t mine = current;
  wait(gate);
  current = mine;
  return from < 0 || from > 31 ? value : slots[from];
}
static void __syncwarp(uint32_t = 0xffffffffu) { shuffled(0, 0); }
template <class T>
T shuffled_as(T value, int from) {
  static_assert(sizeof(T) == 4, "words");
  uint32_t word;
  memcpy(&word, &value, 4);
  word = shuffled(word, from);
  memcpy(&value, &word, 4);
  return value;
}
template <class T>
T __shfl_sync(uint32_t, T value, int from) {
  return shuffled_as(value, from);
}
template <class T>
T __shfl_xor_sync(uint32_t, T value, int lanes) {
  return shuffled_as(value, int(lane_of(current)) ^ lanes);
}
template <class T>
T __shfl_up_sync(uint32_t, T value, int lanes) {
  return shuffled_as(value, int(lane_of(current)) - lanes);
}
template <class T>
T __shfl_down_sync(uint32_t, T value, int lanes) {
  return shuffled_as(value, int(lane_of(current)) + lanes);
}
static uint32_t __ballot_sync(uint32_t mask, int holds) {
  uint32_t votes = (holds != 0) << lane_of(current);
  for (int lanes = 1; lanes < 32; lanes *= 2) votes |= __shfl_xor_sync(mask, votes, lanes);
  return votes;
}
static uint32_t __reduce_max_sync(uint32_t mask, uint32_t x) {
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const uint32_t other = __shfl_xor_sync(mask, x, lanes);
    x = x > other ? x : other;
  }
  return x;
}
static int __any_sync(uint32_t mask, int holds) {
  for (int lanes = 1; lanes < 32; lanes *= 2) holds |= __shfl_xor_sync(mask, holds, lanes);
  return holds != 0;
}

template <class To, class From>
To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "sizes");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
static float __uint_as_float(uint32_t x) { return bits_as<float>(x); }
static uint32_t __float_as_uint(float x) { return bits_as<uint32_t>(x); }
static float __int_as_float(int32_t x) { return bits_as<float>(x); }
static int32_t __float_as_int(float x) { return bits_as<int32_t>(x); }
static double __longlong_as_double(long long x) { return bits_as<double>(x); }
static long long __double_as_longlong(double x) { return bits_as<long long>(x); }
static int __clz(int x) { return x == 0 ? 32 : __builtin_clz(uint32_t(x)); }
static int __popc(uint32_t x) { return __builtin_popcount(x); }
static int __ffs(int x) { return __builtin_ffs(x); }
static uint64_t __umul64hi(uint64_t a, uint64_t b) { return uint64_t((unsigned __int128)a * b >> 64); }
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T x) {
  *p = x;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
static void __threadfence() {}
static void __threadfence_block() {}
// A cluster: the blocks that run in turns. An address of another one's shared memory is in what is kept of it.
KF_LASTING uint32_t arrived_at[kMost * kTogether];
static uint32_t& arrived() { return arrived_at[(here->number % together) * kMost + current]; }
static void __cluster_barrier_arrive() { arrived() = arrive(&cluster_gate); }
static void __cluster_barrier_arrive_relaxed() { __cluster_barrier_arrive(); }
static void __cluster_barrier_wait() { wait(&cluster_gate, arrived()); }
static void* __cluster_map_shared_rank(const void* p, uint32_t rank) {
  if (at_once[rank] == here) return (void*)p;
  const char* at = (const char*)p;
  if (at >= __bss_start && at < _end) return at_once[rank]->variables + (at - __bss_start);
  return at_once[rank]->shared + (at - __start_kf_shared);
}
// Threads run one at a time, and switch at barriers alone.
template <class T>
T atomicAdd(T* p, T x) {
  const T before = *p;
  *p = before + x;
  return before;
}
template <class T>
T atomicMax(T* p, T x) {
  const T before = *p;
  *p = before > x ? before : x;
  return before;
}
template <class T>
T atomicInc(T* p, T most) {
  const T before = *p;
  *p = before >= most ? 0 : before + 1;
  return before;
}
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __frcp_rn(float a) { return 1 / a; }
static float __fsqrt_rn(float a) { return std::sqrt(a); }
// Approximations, as exact as the CPU has them but where the device's own are far off.
#define __expf fast_expf  // a name of the C library's own
static float fast_expf(float x) { return std::exp2(x * 0x1.715476p+0f); }
static float __fdividef(float a, float b) { return std::abs(b) > 0x1p126f && std::abs(b) < INFINITY ? a * 0 : a / b; }
static float rsqrtf(float x) { return float(1 / std::sqrt(double(x))); }
static double rsqrt(double x) { return 1 / std::sqrt(x); }
template <class T>
T max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
T min(T a, T b) {
  return a < b ? a : b;
}

// ---- the instructions of the prelude --------------------------------------------------------------------------------------------------

static float cvt_f32_f16(uint16_t x) { return float(bits_as<_Float16>(x)); }
static uint16_t cvt_rn_f16_f32(float x) { return x != x ? 0x7fff : bits_as<uint16_t>(_Float16(x)); }
static uint16_t cvt_rn_bf16_f32(float x) {
  const uint32_t b = bits_as<uint32_t>(x);
  return x != x ? 0x7fff : uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
static uint32_t cvt_rn_f16x2_f32(float high, float low) { return uint32_t(cvt_rn_f16_f32(high)) << 16 | cvt_rn_f16_f32(low); }
static uint32_t cvt_rn_bf16x2_f32(float high, float low) { return uint32_t(cvt_rn_bf16_f32(high)) << 16 | cvt_rn_bf16_f32(low); }
static uint32_t mov_b32(uint32_t x) { return x; }
// For products and sums that float holds exactly.
static uint32_t fma_rn_f16x2(uint32_t a, uint32_t b, uint32_t c) {
  const auto one = [](uint32_t x, uint32_t y, uint32_t z) {
    return uint32_t(cvt_rn_f16_f32(cvt_f32_f16(x) * cvt_f32_f16(y) + cvt_f32_f16(z)));
  };
  return one(a >> 16, b >> 16, c >> 16) << 16 | one(a, b, c);
}
static uint32_t fma_rn_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
  const auto wide = [](uint32_t x) { return bits_as<float>(x << 16); };
  const auto one = [=](uint32_t x, uint32_t y, uint32_t z) { return uint32_t(cvt_rn_bf16_f32(wide(x) * wide(y) + wide(z))); };
  return one(a >> 16, b >> 16, c >> 16) << 16 | one(a, b, c);
}
static float ex2_approx_f32(float x) { return std::exp2(x); }
static float ex2_approx_ftz_f32(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0 : y;
}
static float rcp_approx_f32(float x) { return 1 / x; }
static float rcp_approx_ftz_f32(float x) { return std::abs(x) > 0x1p126f ? 0 : 1 / x; }
static void st_release_gpu_global_u32(uint32_t* p, uint32_t word) { *p = word; }
static uint32_t ld_acquire_gpu_global_u32(const uint32_t* p) {
  if (*p == 0) poll();
  return *p;
}
static void st_relaxed_gpu_global_u64(uint64_t* p, uint64_t word) { *p = word; }
static uint64_t ld_relaxed_gpu_global_u64(const uint64_t* p) {
  if (*p == 0) poll();
  return *p;
}
// Copies ahead arrive no sooner than they must, and what was in their place is gone at once.
static size_t __cvta_generic_to_shared(const void* p) { return size_t(p); }
static void cp_async_cg_shared_global(size_t to, const uint4* from) {
  Copies& mine = here->copies[current];
  if (mine.count == kCopies) abort();
  mine.list[mine.count++] = {(uint4*)to, from, mine.groups};
  memset((void*)to, 0xff, sizeof(uint4));
}
static void cp_async_commit_group() { ++here->copies[current].groups; }
static void cp_async_wait_group(uint32_t left) {
  Copies& mine = here->copies[current];
  uint32_t stay = 0;
  for (uint32_t i = 0; i < mine.count; ++i) {
    const Copy& c = mine.list[i];
    if (c.group + left < mine.groups)
      *c.to = *c.from;
    else
      mine.list[stay++] = c;
  }
  mine.count = stay;
}
