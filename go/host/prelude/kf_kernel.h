// kf_kernel.h: the only header a host kernel sees. The compiler puts it in front of the source (-include).
//
// It owns: the entry's signature, element types and their conversion to float, one hardware vector of floats or doubles, and elementary
// functions on a vector or a single value. It refuses: memory allocation, threads, static state, the address of anything that is not an argument.
//
//   KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) { ... }     a part [begin, end) of the work; args as in the spec
//
// A Type is one of float, double, kf_bf16, kf_f16. Its arithmetic type kf_acc<Type> is float, or double for double; kf_v<kf_acc<Type>> is a vector of
// kf_lanes<kf_acc<Type>> of them, with the operators of the language ( + * < ? : ), element by element. KF_LANES (floats a vector) may be
// given as a constant: 16 with AVX-512, 8 with AVX2, 4 anywhere.
//
// Errors, in units in the last place of the result, found by running every float (bindings/python/tests/test_templates_math.py):
//   exp 0.9   log 0.9   tanh 1.4   erf 1.0     double: libm's
// `half` as a template argument: enough for results that are rounded to a half type, and faster.
#ifndef KF_KERNEL_H_
#define KF_KERNEL_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#define KF_ENTRY extern "C" __attribute__((visibility("default")))
#define KF_INLINE inline __attribute__((always_inline))
#define KF_RESTRICT __restrict__

union kf_arg {
  void* p;
  int64_t i;
  double f;
};

// ---- element types ---------------------------------------------------------------------------------------------------------------

struct kf_bf16 { uint16_t bits; };
struct kf_f16 { uint16_t bits; };

template <class Type>
inline constexpr bool kf_is_float = __is_same(Type, float) || __is_same(Type, double) || __is_same(Type, kf_bf16) || __is_same(Type, kf_f16);

template <class Type> struct kf_acc_of { using type = Type; };
template <> struct kf_acc_of<kf_bf16> { using type = float; };
template <> struct kf_acc_of<kf_f16> { using type = float; };
template <class Type> using kf_acc = typename kf_acc_of<Type>::type;

template <class To, class From> KF_INLINE To kf_cast_bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}

// Widening is exact. Narrowing rounds to nearest, ties to even; overflow gives infinity, NaN stays NaN (quiet, sign kept).
KF_INLINE float kf_of(kf_bf16 x) { return kf_cast_bits<float>(uint32_t(x.bits) << 16); }
KF_INLINE float kf_of(kf_f16 x) {
  uint32_t sign = uint32_t(x.bits & 0x8000) << 16, rest = uint32_t(x.bits & 0x7fff) << 13;
  float scaled = kf_cast_bits<float>(rest) * 0x1p112f;  // moves the exponent's bias; denormals become normal
  uint32_t bits = rest >= 0x0f800000u ? rest + 0x70000000u : kf_cast_bits<uint32_t>(scaled);  // infinity and NaN keep an exponent of ones
  return kf_cast_bits<float>(bits | sign);
}
KF_INLINE float kf_of(float x) { return x; }
KF_INLINE double kf_of(double x) { return x; }

KF_INLINE kf_bf16 kf_to_bf16(float x) {
  uint32_t b = kf_cast_bits<uint32_t>(x);
  uint32_t rounded = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
  return {uint16_t(x == x ? rounded : b >> 16 | 0x40)};
}
KF_INLINE kf_f16 kf_to_f16(float x) {
  uint32_t b = kf_cast_bits<uint32_t>(x), a = b & 0x7fffffffu, sign = b >> 16 & 0x8000;
  uint32_t normal = (a + 0xfffu + (a >> 13 & 1) - 0x38000000u) >> 13;                 // rounds into the next exponent by carry
  uint32_t denormal = kf_cast_bits<uint32_t>(kf_cast_bits<float>(a) + 0.5f) - 0x3f000000u;  // the adder rounds at 2^-24
  uint32_t r = a < 0x38800000u ? denormal : normal;
  r = a >= 0x477ff000u ? 0x7c00u : r;
  r = a > 0x7f800000u ? 0x7e00u | (a >> 13 & 0x1ff) : r;
  return {uint16_t(r | sign)};
}

template <class Type> struct kf_to_t;
template <> struct kf_to_t<float> { static KF_INLINE float to(float x) { return x; } };
template <> struct kf_to_t<double> { static KF_INLINE double to(double x) { return x; } };
template <> struct kf_to_t<kf_bf16> { static KF_INLINE kf_bf16 to(float x) { return kf_to_bf16(x); } };
template <> struct kf_to_t<kf_f16> { static KF_INLINE kf_f16 to(float x) { return kf_to_f16(x); } };
template <class Type> KF_INLINE Type kf_to(kf_acc<Type> x) { return kf_to_t<Type>::to(x); }

// ---- vectors ---------------------------------------------------------------------------------------------------------------------

#ifndef KF_LANES
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define KF_LANES 16
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define KF_LANES 8
#else
#define KF_LANES 4
#endif
#endif

typedef float kf_f32 __attribute__((vector_size(4 * KF_LANES)));
typedef int32_t kf_i32 __attribute__((vector_size(4 * KF_LANES)));
typedef uint32_t kf_u32 __attribute__((vector_size(4 * KF_LANES)));
typedef uint16_t kf_u16 __attribute__((vector_size(2 * KF_LANES)));
typedef double kf_f64 __attribute__((vector_size(4 * KF_LANES)));
typedef int64_t kf_i64 __attribute__((vector_size(4 * KF_LANES)));

template <class Acc> struct kf_v_of { using type = kf_f32; using bits = kf_i32; };
template <> struct kf_v_of<double> { using type = kf_f64; using bits = kf_i64; };
template <class Acc> using kf_v = typename kf_v_of<Acc>::type;
template <class Acc> inline constexpr int kf_lanes = sizeof(Acc) == 8 ? KF_LANES / 2 : KF_LANES;

template <class Acc> KF_INLINE kf_v<Acc> kf_set(Acc x) { return x - kf_v<Acc>{}; }  // x - 0 is x, also for -0.0 and NaN

// Fused multiply-add a * b + c, rounded once.
KF_INLINE float kf_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KF_INLINE double kf_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#if KF_LANES == 16
#define KF_MM(name) _mm512_##name
typedef __m512 kf_mf;
typedef __m512d kf_md;
#elif KF_LANES == 8
#define KF_MM(name) _mm256_##name
typedef __m256 kf_mf;
typedef __m256d kf_md;
#else
#define KF_MM(name) _mm_##name
typedef __m128 kf_mf;
typedef __m128d kf_md;
#endif
#ifdef __FMA__
KF_INLINE kf_f32 kf_fma(kf_f32 a, kf_f32 b, kf_f32 c) { return (kf_f32)KF_MM(fmadd_ps)((kf_mf)a, (kf_mf)b, (kf_mf)c); }
KF_INLINE kf_f64 kf_fma(kf_f64 a, kf_f64 b, kf_f64 c) { return (kf_f64)KF_MM(fmadd_pd)((kf_md)a, (kf_md)b, (kf_md)c); }
#else
template <class Vec> KF_INLINE Vec kf_fma(Vec a, Vec b, Vec c) {
  for (size_t i = 0; i < sizeof(Vec) / sizeof(a[0]); ++i) c[i] = kf_fma(a[i], b[i], c[i]);
  return c;
}
#endif
KF_INLINE float kf_sqrt(float x) { return __builtin_sqrtf(x); }
KF_INLINE double kf_sqrt(double x) { return __builtin_sqrt(x); }
KF_INLINE kf_f32 kf_sqrt(kf_f32 x) { return (kf_f32)KF_MM(sqrt_ps)((kf_mf)x); }
KF_INLINE kf_f64 kf_sqrt(kf_f64 x) { return (kf_f64)KF_MM(sqrt_pd)((kf_md)x); }

// Loads and stores need no alignment. kf_pack makes the bytes that a store writes.
template <class Vec, class Type> KF_INLINE Vec kf_bytes(const Type* p) { Vec v; __builtin_memcpy(&v, p, sizeof v); return v; }
KF_INLINE kf_f32 kf_unpack(kf_f32 v, const float*) { return v; }
KF_INLINE kf_f64 kf_unpack(kf_f64 v, const double*) { return v; }
KF_INLINE kf_f32 kf_unpack(kf_u16 h, const kf_bf16*) {
#if KF_LANES == 16
  return (kf_f32)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#elif KF_LANES == 8
  return (kf_f32)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#else
  return (kf_f32)(__builtin_convertvector(h, kf_u32) << 16);
#endif
}
KF_INLINE kf_f32 kf_unpack(kf_u16 h, const kf_f16*) {
#if KF_LANES == 16
  return (kf_f32)_mm512_cvtph_ps((__m256i)h);
#elif KF_LANES == 8
  return (kf_f32)_mm256_cvtph_ps((__m128i)h);
#else
  kf_f32 v;
  for (int i = 0; i < KF_LANES; ++i) v[i] = kf_of(kf_f16{h[i]});
  return v;
#endif
}
KF_INLINE kf_f32 kf_pack(const float*, kf_f32 v) { return v; }
KF_INLINE kf_f64 kf_pack(const double*, kf_f64 v) { return v; }
KF_INLINE kf_u16 kf_pack(const kf_bf16*, kf_f32 v) {
#if defined(__AVX512BF16__) && KF_LANES == 16  // the instruction takes denormals for 0, so a vector with one goes the long way
  if (_mm512_fpclass_ps_mask((__m512)v, 0x20) == 0) [[likely]] return (kf_u16)_mm512_cvtneps_pbh((__m512)v);
#endif
  kf_u32 b = (kf_u32)v;
  kf_u32 rounded = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
  return __builtin_convertvector(v == v ? rounded : (b >> 16 | 0x40), kf_u16);
}
KF_INLINE kf_u16 kf_pack(const kf_f16*, kf_f32 v) {
#if KF_LANES == 16
  return (kf_u16)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif KF_LANES == 8
  return (kf_u16)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
  kf_u16 h;
  for (int i = 0; i < KF_LANES; ++i) h[i] = kf_to_f16(v[i]).bits;
  return h;
#endif
}
template <class Type> using kf_raw = decltype(kf_pack((const Type*)nullptr, kf_v<kf_acc<Type>>{}));
template <class Type> KF_INLINE kf_v<kf_acc<Type>> kf_load(const Type* p) { return kf_unpack(kf_bytes<kf_raw<Type>>(p), p); }
template <class Type> KF_INLINE void kf_store(Type* p, kf_v<kf_acc<Type>> v) { auto raw = kf_pack(p, v); __builtin_memcpy(p, &raw, sizeof raw); }

// The forms with n touch n elements only (1 <= n <= lanes); the other lanes of a load are 0.
template <class Type> KF_INLINE kf_v<kf_acc<Type>> kf_load_n(const Type* p, int64_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  uint32_t m = (1u << n) - 1;
  if constexpr (sizeof(kf_raw<Type>) == 64) {
    if constexpr (sizeof(Type) == 8) return kf_unpack((kf_raw<Type>)_mm512_maskz_loadu_epi64(__mmask8(m), p), p);
    else return kf_unpack((kf_raw<Type>)_mm512_maskz_loadu_epi32(__mmask16(m), p), p);
  } else if constexpr (sizeof(kf_raw<Type>) == 32) {
    if constexpr (sizeof(Type) == 8) return kf_unpack((kf_raw<Type>)_mm256_maskz_loadu_epi64(__mmask8(m), p), p);
    else if constexpr (sizeof(Type) == 4) return kf_unpack((kf_raw<Type>)_mm256_maskz_loadu_epi32(__mmask8(m), p), p);
    else return kf_unpack((kf_raw<Type>)_mm256_maskz_loadu_epi16(__mmask16(m), p), p);
  }
#endif
  Type t[kf_lanes<kf_acc<Type>>] = {};
  for (int64_t i = 0; i < n; ++i) t[i] = p[i];
  return kf_load(t);
}
template <class Type> KF_INLINE void kf_store_n(Type* p, kf_v<kf_acc<Type>> v, int64_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  uint32_t m = (1u << n) - 1;
  auto raw = kf_pack(p, v);
  if constexpr (sizeof raw == 64) {
    if constexpr (sizeof(Type) == 8) return _mm512_mask_storeu_epi64(p, __mmask8(m), (__m512i)raw);
    else return _mm512_mask_storeu_epi32(p, __mmask16(m), (__m512i)raw);
  } else if constexpr (sizeof raw == 32) {
    if constexpr (sizeof(Type) == 8) return _mm256_mask_storeu_epi64(p, __mmask8(m), (__m256i)raw);
    else if constexpr (sizeof(Type) == 4) return _mm256_mask_storeu_epi32(p, __mmask8(m), (__m256i)raw);
    else return _mm256_mask_storeu_epi16(p, __mmask16(m), (__m256i)raw);
  }
#endif
  Type t[kf_lanes<kf_acc<Type>>];
  kf_store(t, v);
  for (int64_t i = 0; i < n; ++i) p[i] = t[i];
}
// Stores past the caches; p aligned to the bytes written (sizeof(kf_raw<Type>)). kf_stream_end() before the kernel returns.
template <class Type> KF_INLINE void kf_stream(Type* p, kf_v<kf_acc<Type>> v) {
  auto raw = kf_pack(p, v);
#ifdef __AVX512F__
  if constexpr (sizeof raw == 64) return _mm512_stream_si512((__m512i*)p, (__m512i)raw);
  if constexpr (sizeof raw == 32) return _mm256_stream_si256((__m256i*)p, (__m256i)raw);
#elif defined(__AVX__)
  if constexpr (sizeof raw == 32) return _mm256_stream_si256((__m256i*)p, (__m256i)raw);
#endif
  if constexpr (sizeof raw == 16) _mm_stream_si128((__m128i*)p, (__m128i)raw);
  if constexpr (sizeof raw == 8) _mm_stream_si64((long long*)p, (long long)raw);
}
KF_INLINE void kf_stream_end() { _mm_sfence(); }

// ---- minimum and maximum as torch has them: NaN if either is NaN -----------------------------------------------------------------

template <class Vec> KF_INLINE Vec kf_max(Vec a, Vec b) { return ((a > b) | (a != a)) ? a : b; }
template <class Vec> KF_INLINE Vec kf_min(Vec a, Vec b) { return ((a < b) | (a != a)) ? a : b; }

// ---- lanes by constant positions: kf_shuffle(a, b, f) has lane f(l) of a followed by b in lane l -------------------------------------

template <int... Index> struct kf_ints {};
template <int Count, int... Index> struct kf_upto : kf_upto<Count - 1, Count - 1, Index...> {};
template <int... Index> struct kf_upto<0, Index...> { using type = kf_ints<Index...>; };
template <class Vec, class Fold, int... Index> KF_INLINE Vec kf_shuffle(Vec a, Vec b, Fold, kf_ints<Index...>) { return __builtin_shufflevector(a, b, Fold{}(Index)...); }
template <class Vec, class Fold> KF_INLINE Vec kf_shuffle(Vec a, Vec b, Fold f) {
  return kf_shuffle(a, b, f, typename kf_upto<int(sizeof(Vec) / sizeof(a[0]))>::type{});
}

// ---- over the lanes of one vector: pairwise, the same order on every run ------------------------------------------------------------

template <int Step, class Vec, class Fold> KF_INLINE Vec kf_fold_step(Vec v, Fold f) {
  if constexpr (Step == 0) return v;
  else return kf_fold_step<Step / 2>(f(v, kf_shuffle(v, v, [](int l) { return (l + Step) % int(sizeof(Vec) / sizeof(v[0])); })), f);
}
#define KF_TURN(...) v = f(v, __builtin_shufflevector(v, v, __VA_ARGS__))
template <class Vec, class Fold> KF_INLINE auto kf_fold(Vec v, Fold f) {
  constexpr int n = sizeof(Vec) / sizeof(v[0]);
  if constexpr (n == 16) KF_TURN(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7), KF_TURN(4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3),
      KF_TURN(2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1), KF_TURN(1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0);
  if constexpr (n == 8) KF_TURN(4, 5, 6, 7, 0, 1, 2, 3), KF_TURN(2, 3, 0, 1, 2, 3, 0, 1), KF_TURN(1, 0, 1, 0, 1, 0, 1, 0);
  if constexpr (n == 4) KF_TURN(2, 3, 0, 1), KF_TURN(1, 0, 1, 0);
  if constexpr (n == 2) KF_TURN(1, 0);
  return v[0];
}
template <class Vec> KF_INLINE auto kf_hsum(Vec v) { return kf_fold(v, [](auto a, auto b) { return a + b; }); }
template <class Vec> KF_INLINE auto kf_hmax(Vec v) { return kf_fold(v, [](auto a, auto b) { return kf_max(a, b); }); }
template <class Vec> KF_INLINE auto kf_hmin(Vec v) { return kf_fold(v, [](auto a, auto b) { return kf_min(a, b); }); }

// ---- elementary functions: Vec is float, double, kf_f32 or kf_f64 ---------------------------------------------------------------------

template <class Vec> struct kf_float_only { using bits = int32_t; };
template <> struct kf_float_only<kf_f32> { using bits = kf_i32; };

KF_INLINE int32_t kf_int(float x) { return int32_t(x); }
KF_INLINE kf_i32 kf_int(kf_f32 x) { return __builtin_convertvector(x, kf_i32); }
template <class Vec, class Bits = typename kf_float_only<Vec>::bits> KF_INLINE Vec kf_copysign(Vec a, Vec sign) {
  return kf_cast_bits<Vec>((kf_cast_bits<Bits>(a) & 0x7fffffff) | (kf_cast_bits<Bits>(sign) & int32_t(0x80000000)));
}
template <class Vec> KF_INLINE Vec kf_abs(Vec a) { return kf_cast_bits<Vec>(kf_cast_bits<typename kf_float_only<Vec>::bits>(a) & 0x7fffffff); }

// 1 / x. `half`: for results that are rounded to a half type; relative error 2^-14 where the machine has such an instruction.
template <bool half, class Vec> KF_INLINE Vec kf_reciprocal(Vec x) {
#ifdef __AVX512F__
  if constexpr (half && sizeof(Vec) == 64 && __is_same(Vec, kf_f32)) return (Vec)_mm512_rcp14_ps((__m512)x);
#endif
  return 1.0f / x;
}

// e^x = 2^n e^r with r in [-ln2/2, ln2/2]; 2^n in two steps, so that the result may be denormal.
template <class Vec> KF_INLINE Vec kf_exp_float(Vec x) {
  using Bits = typename kf_float_only<Vec>::bits;
#if KF_LANES == 16
  constexpr bool wide = __is_same(Vec, kf_f32);  // one instruction each; the bound is the first operand, so that NaN stays
#else
  constexpr bool wide = false;
#endif
  Vec c, n;
  if constexpr (wide) {
    c = (Vec)_mm512_max_ps(_mm512_set1_ps(-104.0f), _mm512_min_ps(_mm512_set1_ps(89.0f), (__m512)x));
    n = (Vec)_mm512_roundscale_ps((__m512)(c * 0x1.715476p+0f), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    c = x > 89.0f ? Vec{} + 89.0f : x;
    c = c < -104.0f ? Vec{} - 104.0f : c;
    n = kf_fma(c, Vec{} + 0x1.715476p+0f, Vec{} + 0x1.8p23f) - 0x1.8p23f;
  }
  Vec r = kf_fma(n, Vec{} - 0x1.62e400p-1f, c);
  r = kf_fma(n, Vec{} - 0x1.7f7d1cp-20f, r);
  Vec p = Vec{} + 0x1.694000p-10f;
  p = kf_fma(p, r, Vec{} + 0x1.125edcp-7f);
  p = kf_fma(p, r, Vec{} + 0x1.555b5ap-5f);
  p = kf_fma(p, r, Vec{} + 0x1.555450p-3f);
  p = kf_fma(p, r, Vec{} + 0x1.fffff6p-2f);
  p = kf_fma(p, r, Vec{} + 1.0f);
  p = kf_fma(p, r, Vec{} + 1.0f);
  if constexpr (wide) {
    return (Vec)_mm512_scalef_ps((__m512)p, (__m512)n);
  } else {
    Bits k = kf_int(n), half = k >> 1;
    return p * kf_cast_bits<Vec>((half + 127) << 23) * kf_cast_bits<Vec>((k - half + 127) << 23);
  }
}
// ln x = e ln2 + ln(1 + m), m in [-1/3, 1/3]; denormals are scaled first.
template <class Vec> KF_INLINE Vec kf_log_float(Vec x) {
  using Bits = typename kf_float_only<Vec>::bits;
  auto tiny = x < 0x1p-126f;
  Vec a = tiny ? x * 0x1p23f : x;
  Vec bias = tiny ? Vec{} - 23.0f : Vec{};
  Bits e = (kf_cast_bits<Bits>(a) - 0x3f2aaaab) & int32_t(0xff800000);
  Vec m = kf_cast_bits<Vec>(kf_cast_bits<Bits>(a) - e);
  Vec i;
  if constexpr (sizeof(Vec) == 4) i = float(e); else i = __builtin_convertvector(e, Vec);
  i = kf_fma(i, Vec{} + 0x1p-23f, bias);
  m = m - 1.0f;
  Vec s = m * m;
  Vec r = Vec{} - 0x1.0ae000p-3f, t = Vec{} + 0x1.208000p-3f;
  r = kf_fma(r, s, Vec{} - 0x1.f1988ap-4f);
  t = kf_fma(t, s, Vec{} + 0x1.1e5740p-3f);
  r = kf_fma(r, s, Vec{} - 0x1.55b36ep-3f);
  t = kf_fma(t, s, Vec{} + 0x1.99d8b2p-3f);
  r = kf_fma(r, s, Vec{} - 0x1.fffe02p-3f);
  r = kf_fma(t, m, r);
  r = kf_fma(r, m, Vec{} + 0x1.5554fap-2f);
  r = kf_fma(r, m, Vec{} - 0.5f);
  r = kf_fma(r, s, m);
  r = kf_fma(i, Vec{} + 0x1.62e430p-1f, r);
  r = x == __builtin_inff() ? x : r;
  r = x == 0.0f ? Vec{} - __builtin_inff() : r;
  return ((x < 0.0f) | (x != x)) ? Vec{} + __builtin_nanf("") : r;
}
template <bool half, class Vec> KF_INLINE Vec kf_tanh_float(Vec x) {
  Vec t = kf_abs(x), s = x * x;
  Vec p = Vec{} - 0x1.828776p-8f;
  p = kf_fma(p, s, Vec{} + 0x1.54c3c2p-6f);
  p = kf_fma(p, s, Vec{} - 0x1.b89abap-5f);
  p = kf_fma(p, s, Vec{} + 0x1.1109bep-3f);
  p = kf_fma(p, s, Vec{} - 0x1.55553ep-2f);
  p = kf_fma(p * s, x, x);
  Vec q = 1.0f - 2.0f * kf_reciprocal<half>(kf_exp_float(t + t) + 1.0f);
  return t < 0.6f ? p : (x == x ? kf_copysign(q, x) : x);
}
template <class Vec> KF_INLINE Vec kf_erf_float(Vec x) {
  Vec t = kf_abs(x), s = x * x;
  Vec r = kf_fma(Vec{} - 0x1.220000p-16f, t, Vec{} + 0x1.91cfb2p-12f), u = kf_fma(Vec{} - 0x1.fd1438p-9f, t, Vec{} + 0x1.8d6342p-6f);
  r = kf_fma(r, s, u);
  r = kf_fma(r, t, Vec{} - 0x1.b55cb8p-4f);
  r = kf_fma(r, t, Vec{} - 0x1.450aa0p-1f);
  r = kf_fma(r, t, Vec{} - 0x1.079d0cp-3f);
  r = kf_fma(r, t, -t);
  r = t > 4.0f ? Vec{} + 1.0f : 1.0f - kf_exp_float(r);  // beyond 4 the polynomial is not needed, and infinity would give NaN
  Vec p = Vec{} - 0x1.38e000p-11f;
  p = kf_fma(p, s, Vec{} + 0x1.471a58p-8f);
  p = kf_fma(p, s, Vec{} - 0x1.b691b2p-6f);
  p = kf_fma(p, s, Vec{} + 0x1.ce1c44p-4f);
  p = kf_fma(p, s, Vec{} - 0x1.812700p-2f);
  p = kf_fma(p, s, Vec{} + 0x1.06eba8p-3f);
  p = kf_fma(p, x, x);
  return t > 0.927734375f ? kf_copysign(r, x) : p;
}

template <class Vec, class Fold> KF_INLINE Vec kf_libm(Vec x, Fold f) {
  if constexpr (__is_same(Vec, double)) return f(x);
  else for (size_t i = 0; i < sizeof x / 8; ++i) x[i] = f(x[i]);
  return x;
}
#define KF_ELEMENTARY(name, single, libm)                                             \
  template <bool half = false, class Vec> KF_INLINE Vec name(Vec x) {                       \
    if constexpr (__is_same(Vec, float) || __is_same(Vec, kf_f32)) return single(x);      \
    else return kf_libm(x, [](double y) { return libm(y); });                         \
  }
KF_ELEMENTARY(kf_exp, kf_exp_float, __builtin_exp)
KF_ELEMENTARY(kf_log, kf_log_float, __builtin_log)
KF_ELEMENTARY(kf_tanh, kf_tanh_float<half>, __builtin_tanh)
KF_ELEMENTARY(kf_erf, kf_erf_float, __builtin_erf)
#endif  // KF_KERNEL_H_
