// CUDA device code on the CPU, for tests: the blocks of a grid run one after the other, the threads of a block as fibers of one thread of the
// CPU, which switch at barriers and shuffles. The blocks of a cluster, and all of a cooperative launch, run in turns until each waits for another;
// shared memory is then that of the block whose turn it is. It shows what a kernel computes and touches; it shows nothing about speed, nor races
// that need two blocks at the same instant. A barrier that some threads never reach, or a word that never comes, is an error and not a hang.
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
// What is not part of a block: the rest of this object's variables, shared memory among them, is exchanged when another block has its turn.
#define KF_LASTING static __attribute__((section("kf_lasting")))
KF_LASTING dim3 threadIdx, blockIdx, blockDim, gridDim;

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

constexpr size_t kStack = 256 << 10, kShared = 227 << 10;
constexpr uint32_t kMost = 1024, kTogether = 64,
                   kCopies = 64;  // threads of a block, blocks that run in turns, a thread's copies on their way

// A barrier of `size` threads; passed says how often it opened.
struct Gate {
  uint32_t size, here, passed;
};
struct Fiber {
  void* stack;
  bool done, polls;  // polls: waits for a word of another block
  Gate* gate;
  uint32_t seen;
};
// 16 bytes on their way to shared memory: group is how many the thread had ended before.
struct Copy {
  uint4* to;
  const uint4* from;
  uint32_t group;
};
struct Copies {
  Copy list[kCopies];
  uint32_t count, groups;
};
struct Block {
  Fiber fibers[kMost];
  Copies copies[kMost];
  Gate gate, warp_gates[kMost / 32];
  uint32_t exchange[2][kMost];  // two shuffles of a warp may overlap
  uint32_t left, number;
  char* stacks;
  char *variables, *shared;  // this object's and what a unit placed, while another block has its turn
};

KF_LASTING Block* at_once[kTogether];  // the blocks that run in turns
KF_LASTING Block* here;                // the one whose turn it is
KF_LASTING uint32_t together, current;
KF_LASTING size_t dynamic;  // bytes of dynamic shared memory
KF_LASTING Gate cluster_gate;
KF_LASTING void* scheduler;
KF_LASTING void (*body)(void*);
KF_LASTING void* body_args;

// Shared memory: what a unit places there (blocks.py, `unit`) is filled with junk before every block, since a device does not clear it.
extern char __start_kf_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_kf_shared[] __attribute__((weak, visibility("hidden")));
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
alignas(16) static char dynamic_shared[kShared];
static size_t placed() { return __start_kf_shared ? size_t(__stop_kf_shared - __start_kf_shared) : 0; }
static void soil(bool backwards) {
  if (placed()) memset(__start_kf_shared, backwards ? 0xff : 0x7b, placed());
  memset(dynamic_shared, backwards ? 0xff : 0x7b, dynamic);
}
// Room for a copy of some variables: as far from a multiple of 16 as they are.
static char* room_for(const char* from, size_t bytes) { return (char*)malloc(bytes + 16) + uintptr_t(from) % 16; }
static void keep(Block* b) {
  memcpy(b->variables, __bss_start, size_t(_end - __bss_start));
  if (placed()) memcpy(b->shared, __start_kf_shared, placed());
}
static void take(Block* b) {
  memcpy(__bss_start, b->variables, size_t(_end - __bss_start));
  if (placed()) memcpy(__start_kf_shared, b->shared, placed());
}

static void leave() { blocks_switch(&here->fibers[current].stack, scheduler); }
static void enter() {
  body(body_args);
  here->fibers[current].done = true;
  leave();
  __builtin_trap();
}
static uint32_t arrive(Gate* gate) {
  const uint32_t seen = gate->passed;
  if (++gate->here == gate->size) gate->here = 0, ++gate->passed;
  return seen;
}
static void wait(Gate* gate, uint32_t seen) {
  if (gate->passed != seen) return;
  here->fibers[current].gate = gate;
  here->fibers[current].seen = seen;
  leave();
}
static void wait(Gate* gate) { wait(gate, arrive(gate)); }
// Waits until another block may have written; the caller looks again.
static void poll() {
  if (together == 1) return;
  here->fibers[current].polls = true;
  leave();
}

static void start(Block* b, uint32_t threads) {
  if (!b->stacks) {
    b->stacks = (char*)mmap(nullptr, kStack * kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->stacks == MAP_FAILED) abort();
    b->variables = room_for(__bss_start, size_t(_end - __bss_start));
    b->shared = room_for(__start_kf_shared, placed());
  }
  b->gate = {threads, 0, 0};
  b->left = threads;
  for (uint32_t w = 0; w * 32 < threads; ++w) b->warp_gates[w] = {threads - w * 32 < 32 ? threads - w * 32 : 32, 0, 0};
  for (uint32_t t = 0; t < threads; ++t) {
    void** top = (void**)(b->stacks + (t + 1) * kStack) - 2;
    *top = (void*)enter;
    memset(top - 6, 0, 6 * sizeof(void*));
    b->fibers[t] = {top - 6, false, false, nullptr, 0};
    b->copies[t].count = b->copies[t].groups = 0;
  }
}
// Runs the threads of a block, forwards or backwards between barriers, until all have ended or wait; whether one came anywhere.
static bool turn(Block* b, uint32_t threads, bool backwards) {
  here = b;
  blockIdx = {b->number % gridDim.x, b->number / gridDim.x % gridDim.y, b->number / gridDim.x / gridDim.y};
  bool any = false;
  for (bool moved = true, asked = false; moved && b->left > 0; any |= moved) {
    moved = false;
    for (uint32_t i = 0; i < threads; ++i) {
      const uint32_t t = backwards ? threads - 1 - i : i;
      Fiber& f = b->fibers[t];
      if (f.done || (f.gate && f.gate->passed == f.seen) || (f.polls && asked)) continue;
      f.gate = nullptr;
      f.polls = false;
      current = t;
      threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
      blocks_switch(&scheduler, f.stack);
      b->left -= f.done;
      moved |= !f.polls;
    }
    asked = true;  // the words of others stay as they are while this block has its turn
  }
  return any;
}
// Runs blocks in turns; 0, or 1 + the number of one that waits for what never comes.
static int64_t run_blocks(uint32_t threads, bool backwards) {
  cluster_gate = {threads * together, 0, 0};
  for (uint32_t k = 0; k < together; ++k) {
    start(at_once[k], threads);
    soil(backwards);
    if (together > 1) keep(at_once[k]);
  }
  for (uint32_t left = together; left > 0;) {
    bool moved = false;
    left = 0;
    for (uint32_t i = 0; i < together; ++i) {
      Block* b = at_once[backwards ? together - 1 - i : i];
      if (b->left == 0) continue;
      if (together > 1) take(b);
      moved |= turn(b, threads, backwards);
      if (together > 1) keep(b);
      left += b->left > 0;
    }
    if (!moved)
      for (uint32_t k = 0; k < together; ++k)
        if (at_once[k]->left > 0) return 1 + at_once[k]->number;
  }
  return 0;
}

template <class... Params, size_t... At>
static void call(void (*kernel)(Params...), void** args, std::index_sequence<At...>) {
  kernel(*(Params*)args[At]...);
}
// Runs a grid. grid: three numbers. block: three, then how many blocks run in turns, and bytes of dynamic shared memory. Returns 0, or 1 + the number of the block that hangs.
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
  const int64_t all = grid[0] * grid[1] * grid[2], threads = block[0] * block[1] * block[2], blocks = block[3];
  if (threads > kMost || blocks > kTogether || all % blocks != 0 || block[4] > int64_t(kShared)) return -1;
  dynamic = size_t(block[4]);
  together = uint32_t(blocks);
  for (uint32_t k = 0; k < together; ++k)
    if (!at_once[k]) at_once[k] = (Block*)calloc(1, sizeof(Block));
  for (int64_t first = 0; first < all; first += blocks) {
    for (uint32_t k = 0; k < together; ++k) at_once[k]->number = uint32_t(first + k);
    if (int64_t hangs = run_blocks(uint32_t(threads), backwards)) return hangs;
  }
  return 0;
}

#include "blocks_device.h"
