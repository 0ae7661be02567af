// CUDA device code on the CPU, for tests: the blocks of a grid run one after the other, the threads of a block as fibers of one thread of the
// CPU, which switch at barriers and shuffles. It shows what a kernel computes and touches; it shows nothing about speed, nor races that need
// two blocks at once. A barrier that some threads never reach is an error and not a hang.
#pragma once
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#define __device__
#define __global__
#define __shared__ static
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)

struct uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct dim3 {
  uint32_t x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

// ---- fibers --------------------------------------------------------------------------------------------------------------------------

extern "C" void blocks_switch(void** from, void* to);
asm(R"(
.text
.type blocks_switch, @function
blocks_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

constexpr size_t kStack = 256 << 10;
constexpr uint32_t kMost = 1024;

// A barrier of `size` threads; passed says how often it opened.
struct Gate {
  uint32_t size, here, passed;
};
struct Fiber {
  void* stack;
  bool done;
  Gate* gate;
  uint32_t seen;
};

static Fiber fibers[kMost];
static void* scheduler;
static char* stacks;
static uint32_t current;
static Gate block_gate, warp_gates[kMost / 32];
static uint32_t exchange[2][kMost];  // two shuffles of a warp may overlap
static void (*body)(void*);
static void* body_args;

// Shared memory: what a unit places there (blocks.py, `unit`) is filled with junk before every block, since a device does not clear it.
extern char __start_kf_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_kf_shared[] __attribute__((weak, visibility("hidden")));
alignas(16) static char dynamic_shared[227 << 10];
static void soil(bool backwards) {
  if (__start_kf_shared) memset(__start_kf_shared, backwards ? 0xff : 0x7b, size_t(__stop_kf_shared - __start_kf_shared));
}

static void leave() { blocks_switch(&fibers[current].stack, scheduler); }
static void enter() {
  body(body_args);
  fibers[current].done = true;
  leave();
  __builtin_trap();
}
static void wait(Gate* gate) {
  const uint32_t seen = gate->passed;
  if (++gate->here == gate->size) {
    gate->here = 0;
    ++gate->passed;
    return;
  }
  fibers[current].gate = gate;
  fibers[current].seen = seen;
  leave();
}

// Runs one block, its threads forwards or backwards between barriers; false where they wait for others that have ended or wait elsewhere.
static bool run_block(uint32_t threads, bool backwards) {
  if (!stacks) {
    stacks = (char*)mmap(nullptr, kStack * kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) abort();
  }
  block_gate = {threads, 0, 0};
  for (uint32_t w = 0; w * 32 < threads; ++w) warp_gates[w] = {threads - w * 32 < 32 ? threads - w * 32 : 32, 0, 0};
  for (uint32_t t = 0; t < threads; ++t) {
    void** top = (void**)(stacks + (t + 1) * kStack) - 2;
    *top = (void*)enter;
    memset(top - 6, 0, 6 * sizeof(void*));
    fibers[t] = {top - 6, false, nullptr, 0};
  }
  for (uint32_t left = threads; left > 0;) {
    bool moved = false;
    for (uint32_t i = 0; i < threads; ++i) {
      const uint32_t t = backwards ? threads - 1 - i : i;
      Fiber& f = fibers[t];
      if (f.done || (f.gate && f.gate->passed == f.seen)) continue;
      f.gate = nullptr;
      moved = true;
      current = t;
      threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
      blocks_switch(&scheduler, f.stack);
      left -= f.done;
    }
    if (!moved) return false;
  }
  return true;
}

template <class... Params, size_t... At>
static void call(void (*kernel)(Params...), void** args, std::index_sequence<At...>) {
  kernel(*(Params*)args[At]...);
}
// Runs a grid: grid and block have three numbers. Returns 0, or 1 + the number of the block that hangs.
template <class... Params>
static int64_t run_grid(void (*kernel)(Params...), const int64_t* grid, const int64_t* block, void** args, bool backwards) {
  struct Both {
    void (*kernel)(Params...);
    void** args;
  } both = {kernel, args};
  body_args = &both;
  body = [](void* p) { call(((Both*)p)->kernel, ((Both*)p)->args, std::index_sequence_for<Params...>()); };
  gridDim = {uint32_t(grid[0]), uint32_t(grid[1]), uint32_t(grid[2])};
  blockDim = {uint32_t(block[0]), uint32_t(block[1]), uint32_t(block[2])};
  if (block[0] * block[1] * block[2] > kMost) return -1;
  int64_t number = 0;
  for (int64_t z = 0; z < grid[2]; ++z)
    for (int64_t y = 0; y < grid[1]; ++y)
      for (int64_t x = 0; x < grid[0]; ++x) {
        blockIdx = {uint32_t(x), uint32_t(y), uint32_t(z)};
        ++number;
        soil(backwards);
        if (!run_block(blockDim.x * blockDim.y * blockDim.z, backwards)) return number;
      }
  return 0;
}

// ---- what the compiler's own headers have --------------------------------------------------------------------------------------------

static void __syncthreads() { wait(&block_gate); }
static uint32_t lane_of(uint32_t t) { return t % 32; }
static uint32_t shuffled(uint32_t value, int from) {
  const uint32_t warp = current / 32, lane = lane_of(current);
  Gate* gate = &warp_gates[warp];
  uint32_t* slots = exchange[gate->passed % 2] + warp * 32;
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
static float ex2_approx_f32(float x) { return std::exp2(x); }
static float ex2_approx_ftz_f32(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0 : y;
}
static float rcp_approx_f32(float x) { return 1 / x; }
static float rcp_approx_ftz_f32(float x) { return std::abs(x) > 0x1p126f ? 0 : 1 / x; }
