// kf_call.h: a call written as a sequence of 64-bit words, the form in which guards are stored and compared.
//
// Two writers must agree word for word: the hooks (from typed arguments) and the reader of `call` JSON (from a plan). Both use this class, so
// the encoding exists once. A guard holds exactly when the words are equal; nothing is implied, nothing is wider than what was judged.
// Not here: alignment (checked on addresses), determinism, key sets, overlap (checked by the hook before it writes words).
#ifndef KF_CALL_H_
#define KF_CALL_H_

#include <cstdint>
#include <cstring>

#include "kf_runtime.h"

namespace kf {

class CallWords {
 public:
  static constexpr uint32_t kMax = 192;
  enum Tag : int64_t {
    kTensor = 1,
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kInts,
    kFloats,
    kTensors,
    kScalarBool,
    kScalarInt,
    kScalarFloat,
    kWrapped,
    kDtype,
    kAlias,
    kBools
  };

  // A plain dense tensor of the target. sizes and strides as the tensor has them, in elements.
  void tensor(int32_t dtype, int64_t dim, const int64_t* sizes, const int64_t* strides) {
    if (!room(1 + 2 * dim)) return;
    put(kTensor | dim << 8 | static_cast<int64_t>(dtype) << 16);
    for (int64_t i = 0; i < dim; ++i) words_[count_++] = sizes[i];
    for (int64_t i = 0; i < dim; ++i) words_[count_++] = strides[i];
  }
  void undefined() { one(kUndefined); }  // a defined optional that holds an undefined tensor, or an undefined tensor argument
  void none() { one(kNone); }            // nullopt
  void boolean(bool v) { two(kBool, v); }
  void integer(int64_t v) { two(kInt, v); }
  void real(double v) { two(kFloat, bits(v)); }  // by bits: -0.0 is not 0.0
  void dtype(int64_t v) { two(kDtype, v); }      // a ScalarType argument, as torch numbers it
  void string(const char* s, uint64_t n) { two(kString, fnv(s, n)); }
  void ints(const int64_t* v, int64_t n) {
    if (!room(1 + n)) return;
    put(kInts | n << 8);
    for (int64_t i = 0; i < n; ++i) words_[count_++] = v[i];
  }
  void bools(const bool* v, int64_t n) {
    if (!room(1 + n)) return;
    put(kBools | n << 8);
    for (int64_t i = 0; i < n; ++i) words_[count_++] = v[i];
  }
  void tensors(int64_t n) { one(kTensors | n << 8); }  // then each element by tensor()
  // A Scalar argument: its own type matters (add of 1 and of 1.0 differ).
  void scalar(bool v) { two(kScalarBool, v); }
  void scalar(int64_t v) { two(kScalarInt, v); }
  void scalar(double v) { two(kScalarFloat, bits(v)); }
  // A 0-dim CPU tensor in place of a scalar, by dtype, wrapped-number flag and value bits (zero-extended).
  void wrapped(int32_t dt, bool wrapped_number, int64_t value_bits) {
    two(kWrapped | static_cast<int64_t>(wrapped_number) << 8 | static_cast<int64_t>(dt) << 16, value_bits);
  }
  // Last, for each output of an in-place or out form, in order: the input slot that it exactly aliases. Nothing for an allocated output.
  void alias(int64_t slot) { two(kAlias, slot); }

  const int64_t* data() const { return words_; }
  uint32_t count() const { return count_; }
  bool overflow() const { return overflow_; }  // too many words: not served

  // 64-bit mix of the words (a multiply-rotate hash; speed over strength, since equality decides).
  static uint64_t hash(const int64_t* w, uint32_t n) {
    uint64_t h = 0x9E3779B97F4A7C15ull ^ n;
    for (uint32_t i = 0; i < n; ++i) {
      h = (h ^ static_cast<uint64_t>(w[i])) * 0xD6E8FEB86659FD93ull;
      h ^= h >> 32;
    }
    return h;
  }
  static int64_t bits(double v) {
    int64_t b;
    std::memcpy(&b, &v, sizeof b);
    return b;
  }
  static int64_t fnv(const char* s, uint64_t n) {  // FNV-1a, 64 bit
    uint64_t h = 0xCBF29CE484222325ull;
    for (uint64_t i = 0; i < n; ++i) h = (h ^ static_cast<unsigned char>(s[i])) * 0x100000001B3ull;
    return static_cast<int64_t>(h);
  }

 private:
  bool room(int64_t n) {
    if (n < 0 || count_ + static_cast<uint64_t>(n) > kMax) overflow_ = true;
    return !overflow_;
  }
  void put(int64_t v) { words_[count_++] = v; }
  void one(int64_t v) {
    if (room(1)) put(v);
  }
  void two(int64_t a, int64_t b) {
    if (room(2)) {
      put(a);
      put(b);
    }
  }

  int64_t words_[kMax];
  uint32_t count_ = 0;
  bool overflow_ = false;
};

}  // namespace kf
#endif  // KF_CALL_H_
