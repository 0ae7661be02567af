// The prelude of CUDA candidates: element types, 16-byte vectors, warp and block folds, index arithmetic. No includes, so that NVRTC parses
// nothing else; names beginning with kf_ or KF_ are this file's, and no word of it is in capitals alone, so that constants cannot rewrite it.
//
//   elements   kf_of(x): as its arithmetic type, kf_to<Type>(x): rounded once to nearest even, NaN kept
//   vectors    kf_load<Count>(p), kf_store(p, v), kf_wide(v), kf_narrow<Type>(v)
//   folds      kf_warp_fold, kf_block_fold, kf_warp_scan, kf_block_scan: a fixed order, so the same bits every time
//   indices    kf_divider: quotient and remainder by a size of the call
//   blocks     kf_post(p, word), kf_seen(p): what one block tells another, in a launch that holds them all at once (cooperative)
//   copies     kf_copy_ahead(to, from), kf_end_group(), kf_wait_groups<Left>(): device memory to shared memory while a thread does other things
//
// Elementary functions (expf, tanhf, erff, rsqrtf, exp, ...) are the compiler's own, without fast-math: the code that eager was built from.
#ifndef KF_KERNEL_CUH_
#define KF_KERNEL_CUH_

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;

#define KF_INLINE __device__ __forceinline__
// An entry point: threads of a block at most, and, where given, blocks of a multiprocessor at least (1: registers matter more than a second block).
#define KF_KERNEL(...) extern "C" __global__ __launch_bounds__(__VA_ARGS__)

// ---- elements ------------------------------------------------------------------------------------------------------------------------

// Half types are their bits. A bool is a byte (uint8_t) that is 0 or 1.
struct kf_f16 { uint16_t bits; };
struct kf_bf16 { uint16_t bits; };

// The type that eager computes and accumulates in.
template <class Type> struct kf_acc_of { using type = int64_t; };
template <> struct kf_acc_of<kf_f16> { using type = float; };
template <> struct kf_acc_of<kf_bf16> { using type = float; };
template <> struct kf_acc_of<float> { using type = float; };
template <> struct kf_acc_of<double> { using type = double; };
template <class Type> using kf_acc = typename kf_acc_of<Type>::type;
template <class One, class Other> constexpr bool kf_same = false;
template <class One> constexpr bool kf_same<One, One> = true;
template <class Type> constexpr bool kf_is_float = !kf_same<kf_acc<Type>, int64_t>;
template <class Type> constexpr bool kf_is_half = kf_same<Type, kf_f16> || kf_same<Type, kf_bf16>;

KF_INLINE float kf_of(kf_f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
KF_INLINE float kf_of(kf_bf16 x) { return __uint_as_float(uint32_t(x.bits) << 16); }
template <class Type> KF_INLINE Type kf_of(Type x) { return x; }

// Bits of a value as an element; a pair of values as two elements, the first one in the low half: one instruction where the device has it.
KF_INLINE uint16_t kf_bits(float x, kf_f16*) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
KF_INLINE uint16_t kf_bits(float x, kf_bf16*) {
#if __CUDA_ARCH__ >= 800
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#else
  uint32_t bits = __float_as_uint(x);
  return x != x ? 0x7fff : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}
KF_INLINE uint32_t kf_pair(float low, float high, kf_f16* type) {
#if __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return kf_bits(low, type) | uint32_t(kf_bits(high, type)) << 16;
#endif
}
KF_INLINE uint32_t kf_pair(float low, float high, kf_bf16* type) {
#if __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return kf_bits(low, type) | uint32_t(kf_bits(high, type)) << 16;
#endif
}

// A pair of half elements plus zero: every NaN is 0x7fff then, and a zero is positive.
KF_INLINE uint32_t kf_canonical(uint32_t pair, kf_f16*) {
  uint32_t bits;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(bits) : "r"(pair), "r"(0x3c003c00u), "r"(0u));
  return bits;
}
KF_INLINE uint32_t kf_canonical(uint32_t pair, kf_bf16*) {
#if __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(bits) : "r"(pair), "r"(0x3f803f80u), "r"(0u));
  return bits;
#else
  const uint32_t low = pair & 0xffffu, high = pair >> 16;
  return ((low & 0x7fffu) > 0x7f80u ? 0x7fffu : low == 0x8000u ? 0u : low) | ((high & 0x7fffu) > 0x7f80u ? 0x7fffu : high == 0x8000u ? 0u : high) << 16;
#endif
}

// A number as an element. Half types take their value by way of float, as eager does: a double is rounded twice.
template <class Type, class From> KF_INLINE Type kf_to(From x) {
  if constexpr (kf_is_half<Type>) return Type{kf_bits(float(x), (Type*)nullptr)};
  else return Type(x);
}

// ---- vectors -------------------------------------------------------------------------------------------------------------------------

template <int Bytes> struct kf_word_of { using type = uint4; };
template <> struct kf_word_of<8> { using type = uint2; };
template <> struct kf_word_of<4> { using type = uint32_t; };
template <> struct kf_word_of<2> { using type = uint16_t; };
template <> struct kf_word_of<1> { using type = uint8_t; };

constexpr int kf_least(int a, int b) { return a < b ? a : b; }

// Count elements (a power of two) that are loaded and stored together, in words of at most 16 bytes.
template <class Type, int Count> struct alignas(kf_least(16, Count * sizeof(Type))) kf_vec {
  Type at[Count];
  KF_INLINE Type& operator[](int i) { return at[i]; }
  KF_INLINE const Type& operator[](int i) const { return at[i]; }
};
template <class Type, int Count> union kf_words {
  using word = typename kf_word_of<kf_least(16, Count * sizeof(Type))>::type;
  static constexpr int count = Count * sizeof(Type) / sizeof(word);
  kf_vec<Type, Count> vec;
  word words[count];
};

// Once: data that no cache shall keep for later (evict first).
template <int Count, bool Once = false, class Type> KF_INLINE kf_vec<Type, Count> kf_load(const Type* p) {
  using Words = kf_words<Type, Count>;
  Words v;
#pragma unroll
  for (int i = 0; i < Words::count; ++i) {
    const typename Words::word* from = (const typename Words::word*)p + i;
    v.words[i] = Once ? __ldcs(from) : *from;
  }
  return v.vec;
}
template <bool Once = false, class Type, int Count> KF_INLINE void kf_store(Type* p, const kf_vec<Type, Count>& vec) {
  using Words = kf_words<Type, Count>;
  Words v;
  v.vec = vec;
#pragma unroll
  for (int i = 0; i < Words::count; ++i) {
    typename Words::word* to = (typename Words::word*)p + i;
    if constexpr (Once) __stcs(to, v.words[i]); else *to = v.words[i];
  }
}
// Whether an address is one that kf_load<Count> and kf_store of this type take.
template <int Count, class Type> KF_INLINE bool kf_aligned(const Type* p) {
  return uintptr_t(p) % kf_least(16, Count * sizeof(Type)) == 0;
}

// Elements as their arithmetic type, and back.
template <class Type, int Count> KF_INLINE kf_vec<kf_acc<Type>, Count> kf_wide(const kf_vec<Type, Count>& v) {
  kf_vec<kf_acc<Type>, Count> w;
#pragma unroll
  for (int i = 0; i < Count; ++i) w[i] = kf_of(v[i]);
  return w;
}
template <class Type, class From, int Count> KF_INLINE kf_vec<Type, Count> kf_narrow(const kf_vec<From, Count>& v) {
  if constexpr (kf_is_half<Type> && Count % 2 == 0) {
    union { kf_vec<Type, Count> vec; uint32_t pairs[Count / 2]; } w;
#pragma unroll
    for (int i = 0; i < Count / 2; ++i) w.pairs[i] = kf_pair(float(v[2 * i]), float(v[2 * i + 1]), (Type*)nullptr);
    return w.vec;
  } else {
    kf_vec<Type, Count> w;
#pragma unroll
    for (int i = 0; i < Count; ++i) w[i] = kf_to<Type>(v[i]);
    return w;
  }
}

// A word that is the same, which the compiler does not know: what is worked out of it is worked out again, and not kept in registers from the last time.
KF_INLINE uint32_t kf_anew(uint32_t x) {
  uint32_t y;
  asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// ---- elementary functions that only the device has ---------------------------------------------------------------------------------

// The device's own approximation of 2^x: an error of 2^-22, and zero for what is below the normal numbers.
KF_INLINE float kf_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// ---- comparisons ---------------------------------------------------------------------------------------------------------------------

// Maximum and minimum that keep a NaN, as eager's reductions and pools; among zeros the second one.
template <class Type> KF_INLINE Type kf_max(Type a, Type b) { return a != a || a > b ? a : b; }
template <class Type> KF_INLINE Type kf_min(Type a, Type b) { return a != a || a < b ? a : b; }
template <class Type> KF_INLINE Type kf_infinity() {
  if constexpr (sizeof(Type) == 8) return Type(__longlong_as_double(0x7ff0000000000000ll));
  else return Type(__uint_as_float(0x7f800000u));
}

struct kf_sum_of { template <class Type> KF_INLINE Type operator()(Type a, Type b) const { return a + b; } };
struct kf_max_of { template <class Type> KF_INLINE Type operator()(Type a, Type b) const { return kf_max(a, b); } };

// ---- functions of the hardware ---------------------------------------------------------------------------------------------------------

// exp(x) with a relative error below 2^-22 + 2^-24 * 1.5 |x|, and 1 / x with one of 2^-23: for results that are rounded to half types.
KF_INLINE float kf_fast_exp(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x * 0x1.715476p+0f));
  return y;
}
KF_INLINE float kf_fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The same for |x| from 1 to 2^126, in one instruction: beyond that it gives zero.
KF_INLINE float kf_flushed_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// ---- folds over a warp and a block -------------------------------------------------------------------------------------------------------

// Values of any trivial type of whole 4-byte words go through shuffles word by word.
template <class Type> union kf_shuffled {
  static constexpr int count = sizeof(Type) / 4;
  static_assert(sizeof(Type) % 4 == 0, "a value of whole words");
  Type value;
  uint32_t words[count];
};
template <class Type, class Move> KF_INLINE Type kf_moved(Type x, Move move) {
  kf_shuffled<Type> from, to;
  from.value = x;
#pragma unroll
  for (int i = 0; i < from.count; ++i) to.words[i] = move(from.words[i]);
  return to.value;
}
template <class Type> KF_INLINE Type kf_shuffle_xor(Type x, int lanes) {
  return kf_moved(x, [=](uint32_t word) { return __shfl_xor_sync(0xffffffffu, word, lanes); });
}
template <class Type> KF_INLINE Type kf_shuffle_up(Type x, int lanes) {
  return kf_moved(x, [=](uint32_t word) { return __shfl_up_sync(0xffffffffu, word, lanes); });
}
// The value of a lane, for all.
template <class Type> KF_INLINE Type kf_shuffle(Type x, int lane) {
  return kf_moved(x, [=](uint32_t word) { return __shfl_sync(0xffffffffu, word, lane); });
}

// Folds the values of each Width neighbouring lanes; every one of them gets the result. All 32 lanes must come here.
template <int Width = 32, class Type, class Fold> KF_INLINE Type kf_warp_fold(Type x, Fold fold) {
#pragma unroll
  for (int lanes = Width / 2; lanes > 0; lanes /= 2) x = fold(x, kf_shuffle_xor(x, lanes));
  return x;
}
// Folds one value of each thread of a team: Team neighbouring threads of a one-dimensional block of Threads, both powers of two. Every thread
// gets its team's result. All threads of the block must come here; it ends with a barrier, so it may be called again at once.
template <int Threads, int Team = Threads, class Type, class Fold> KF_INLINE Type kf_block_fold(Type x, Fold fold) {
  constexpr int Warps = Team / 32;
  static_assert(Threads % 32 == 0 && Threads <= 1024 && Threads % Team == 0 && (Team & (Team - 1)) == 0, "teams are powers of two");
  x = kf_warp_fold<kf_least(Team, 32)>(x, fold);
  if constexpr (Warps > 1) {
    __shared__ kf_shuffled<Type> part[Threads / 32];
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) part[warp].value = x;
    __syncthreads();
    x = kf_warp_fold<Warps>(part[warp / Warps * Warps + threadIdx.x % Warps].value, fold);
    __syncthreads();
  }
  return x;
}

// The fold of the values of this lane and of all lanes below it.
template <class Type, class Fold> KF_INLINE Type kf_warp_scan(Type x, Fold fold) {
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    Type below = kf_shuffle_up(x, lanes);
    if (int(threadIdx.x % 32) >= lanes) x = fold(below, x);
  }
  return x;
}
// The fold of the values of all threads of the team (32, or the whole block of Threads) below this one; `start` where there is none. `all` gets
// the fold of the whole team. With more than a warp all threads of the block must come here, and it ends with a barrier.
template <int Threads, int Team = Threads, class Type, class Fold> KF_INLINE Type kf_block_scan(Type x, Type start, Fold fold, Type& all) {
  static_assert(Team == 32 || (Team == Threads && Threads % 32 == 0), "a warp, or a block of whole warps");
  x = kf_warp_scan(x, fold);
  Type below = start;
  if constexpr (Team == 32) {
    all = kf_shuffle(x, 31);
  } else {
    __shared__ kf_shuffled<Type> part[Threads / 32];
    if (threadIdx.x % 32 == 31) part[threadIdx.x / 32].value = x;
    __syncthreads();
    all = start;
#pragma unroll
    for (int w = 0; w < Threads / 32; ++w) {
      if (w == int(threadIdx.x / 32)) below = all;
      all = fold(all, part[w].value);
    }
    __syncthreads();
  }
  const Type left = kf_shuffle_up(x, 1);
  return threadIdx.x % 32 == 0 ? below : fold(below, left);
}

// ---- between blocks ----------------------------------------------------------------------------------------------------------------------

// A word that another block waits for: what this thread wrote before is seen by whoever has seen the word. Only in a cooperative launch, where
// all blocks run at once; the words are of a workspace that the spec has zeroed.
KF_INLINE void kf_post(uint32_t* p, uint32_t word) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(word) : "memory");
}
KF_INLINE uint32_t kf_seen(const uint32_t* p) {
  uint32_t word;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(p) : "memory");
  return word;
}

// The same of a word that says all itself: nothing else that was written is seen with it.
KF_INLINE void kf_post(uint64_t* p, uint64_t word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(word) : "memory");
}
KF_INLINE uint64_t kf_seen(const uint64_t* p) {
  uint64_t word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(p) : "memory");
  return word;
}

// ---- copies ahead ------------------------------------------------------------------------------------------------------------------------

// 16 bytes of device memory on their way to shared memory, past the registers. This thread may read them once kf_wait_groups<Left> has returned: all but the
// last Left groups that it has ended have then arrived. Devices before compute capability 8.0 wait at once.
KF_INLINE void kf_copy_ahead(uint4* to, const uint4* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "l"(__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
  *to = *from;
#endif
}
KF_INLINE void kf_end_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int Left> KF_INLINE void kf_wait_groups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(Left) : "memory");
#endif
}

// ---- indices -------------------------------------------------------------------------------------------------------------------------

// Division by a size of the call. With 32-bit indices it is a multiplication: magic is ceil(2^62 / size), an argument of the kernel, and
// exact for 0 <= i, size < 2^31 (Lemire, Kaser, Kurz 2019: the error i * (magic * size - 2^62) stays below 2^62).
template <class Index> struct kf_divider {
  Index size;
  int64_t magic;
  KF_INLINE Index quotient(Index i) const {
    if constexpr (sizeof(Index) == 4) {  // (i * magic) >> 62 of what has up to 93 bits, in two products of 32 bits
      const uint64_t low = uint64_t(uint32_t(i)) * uint32_t(magic), high = uint64_t(uint32_t(i)) * uint32_t(uint64_t(magic) >> 32);
      return Index((high + (low >> 32)) >> 30);
    } else {
      return i / size;
    }
  }
  // The remainder, which is returned; i becomes the quotient.
  KF_INLINE Index split(Index& i) const {
    const Index q = quotient(i), r = i - q * size;
    i = q;
    return r;
  }
};

#endif
