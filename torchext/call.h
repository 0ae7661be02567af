// A call on its way through a hook: its guard words and its slots, on the stack, without allocation.
//
// Owns: the key rule, the encoding of typed arguments, aliases and overlap of outputs. Source of the encoding: csrc/include/kf_call.h.
// Key rule: the highest key of the masked key set is exactly the target, and every defined tensor is plain: its keys without autograd,
// ADInplaceOrView and autocast are the dense target's. That keeps out sparse, quantized, nested, neg, conj, ZeroTensor, fake and subclass
// tensors. Only exceptions: a wrapped number (how Python scalars arrive), and on CUDA a 0-dim CPU tensor; both are matched by their value.
#ifndef KFT_CALL_H_
#define KFT_CALL_H_

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <string_view>

#include "kf_call.h"
#include "registry.h"

namespace kft {

enum class Target : uint8_t { none, host, cuda };

// The target of a masked key set.
inline Target target_of(c10::DispatchKeySet below) {
  switch (below.highestPriorityTypeId()) {
    case c10::DispatchKey::CPU: return Target::host;
    case c10::DispatchKey::CUDA: return Target::cuda;
    default: return Target::none;
  }
}

// The bits of OpEntry::planned that a call looks at. One of no target is looked into by any plan, so that its fallback is counted with its reason.
inline uint32_t planned_for(Target target) {
  return target == Target::host ? kPlannedHost : target == Target::cuda ? kPlannedCuda : kPlannedHost | kPlannedCuda;
}

// kfr_dtype of a torch element type, 0 for those that no plan may hold (complex, quantized, fp8, ...).
constexpr int32_t dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kBool: return KFR_BOOL;
    case at::kByte: return KFR_U8;
    case at::kChar: return KFR_I8;
    case at::kShort: return KFR_I16;
    case at::kInt: return KFR_I32;
    case at::kLong: return KFR_I64;
    case at::kHalf: return KFR_F16;
    case at::kBFloat16: return KFR_BF16;
    case at::kFloat: return KFR_F32;
    case at::kDouble: return KFR_F64;
    default: return 0;
  }
}
at::ScalarType torch_dtype(int32_t dtype);  // the inverse; dtype must be a kfr_dtype

// Whether a tensor is plain, on CUDA and channels_last: what a composite of kChannelsLast is hooked for.
bool channels_last(Target target, const at::Tensor& t);

// The keys of a plain dense tensor of a target, without those that the key rule ignores.
constexpr c10::DispatchKeySet plain_keys(Target target) {
  return target == Target::cuda ? c10::DispatchKeySet(c10::DispatchKey::CUDA) : c10::DispatchKeySet(c10::DispatchKey::CPU);
}

class Call {
 public:
  static constexpr uint32_t kMaxSlots = 64;

  explicit Call(Target target) : target_(target), plain_(plain_keys(target)) {
    if (target == Target::none) reason_ = Reason::kKeySet;
  }

  // Sink of visit().
  void tensor(const at::Tensor& t);
  void undefined() { words_.undefined(); }
  void none() { words_.none(); }
  void boolean(bool v) { words_.boolean(v); }
  void integer(int64_t v) { words_.integer(v); }
  void real(double v) { words_.real(v); }
  void dtype(at::ScalarType v) {
    typed_ = true;
    dtype_of(v) == 0 ? refuse(Reason::kDtype) : words_.dtype(static_cast<int64_t>(v));
  }
  void string(std::string_view v) { words_.string(v.data(), v.size()); }
  void ints(at::IntArrayRef v) { words_.ints(v.data(), static_cast<int64_t>(v.size())); }
  void list_begin(int64_t n) { words_.tensors(n); }
  void list_end() {}
  template <class T>
  void scalar(T v) {
    words_.scalar(v);
  }
  void refuse(Reason why) {
    if (reason_ == Reason::kServed) reason_ = why;
  }

  // Ends the words of an in-place or out form: for each written tensor the slot that it is, refusing any other overlap.
  void targets(const at::Tensor* const* written, uint32_t count);
  // Ends the words of a call: refuses what is not servable at all.
  void finish() {
    if (slots_n_ == 0) refuse(Reason::kNoTensor);
    if (words_.overflow()) refuse(Reason::kTooLarge);
  }

  Reason reason() const { return reason_; }
  Target target() const { return target_; }
  int32_t device() const { return device_; }            // KFR_HOST or the CUDA ordinal
  bool typed() const { return typed_; }                 // an argument names the type of the result
  c10::DispatchKeySet plain() const { return plain_; }  // what an output is made with
  const kf::CallWords& words() const { return words_; }
  uint32_t slots() const { return slots_n_; }
  const at::Tensor& slot(uint32_t i) const { return *slots_[i]; }
  int32_t alias(uint32_t i) const { return aliases_[i]; }
  static constexpr uint32_t kMaxTargets = 8;

 private:
  void wrapped(const at::Tensor& t);

  Target target_;
  Reason reason_ = Reason::kServed;
  bool typed_ = false;
  int32_t device_ = KFR_HOST;
  c10::DispatchKeySet plain_;
  uint32_t slots_n_ = 0;
  const at::Tensor* slots_[kMaxSlots];
  int32_t aliases_[kMaxTargets];
  kf::CallWords words_;
};

}  // namespace kft
#endif  // KFT_CALL_H_
