// dirt.cc: the stack is filled by a function that returns; the registers by instructions that the compiler is told nothing about but what it
// may have kept there. x86-64 System V: every vector register is the caller's to save, so none has to be given back.
#include "dirt.h"

#include <cstddef>
#include <cstring>

namespace kf {
namespace {

constexpr size_t kStackBytes = 64 << 10;  // more than the frames of most kernels, far less than a thread's stack

[[gnu::noinline]] void fill_stack(uint8_t byte) {
  uint8_t below[kStackBytes];
  std::memset(below, byte, sizeof below);
  asm volatile("" : : "r"(below) : "memory");  // it is used, as far as the compiler knows
}

#define KF_LOW \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

// The pattern is spread over register 0 and copied: no upper half stays zero.
[[gnu::noinline]] void fill_xmm(uint32_t word) {
  asm volatile(
      "movd %0, %%xmm0\n pshufd $0, %%xmm0, %%xmm0\n"
      ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movaps %%xmm0, %%xmm\\n\n .endr\n"
      :
      : "r"(word)
      : KF_LOW);
}
[[gnu::noinline]] void fill_ymm(uint32_t word) {
  asm volatile(
      "vmovd %0, %%xmm0\n vpbroadcastd %%xmm0, %%ymm0\n"
      ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqa %%ymm0, %%ymm\\n\n .endr\n"
      :
      : "r"(word)
      : KF_LOW);
}
[[gnu::noinline]] void fill_zmm(uint32_t word) {
  asm volatile(
      "vpbroadcastd %0, %%zmm0\n"
      ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n vmovdqa64 %%zmm0, %%zmm\\n\n .endr\n"
      ".irp n, 1,2,3,4,5,6,7\n kmovw %0, %%k\\n\n .endr\n"
      :
      : "r"(word)
      : KF_LOW);
}

}  // namespace

void leave_dirt(uint8_t byte) {
  fill_stack(byte);
  uint32_t word = byte * 0x01010101u;
  if (__builtin_cpu_supports("avx512f"))
    fill_zmm(word);
  else if (__builtin_cpu_supports("avx2"))
    fill_ymm(word);
  else
    fill_xmm(word);
}

}  // namespace kf
