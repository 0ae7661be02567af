#include "call.h"

namespace kft {

namespace {

constexpr c10::DispatchKeySet kIgnored = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

struct Range {
  const char* begin;
  const char* end;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

// First and one past the last byte that the tensor's elements lie in. Strides are never negative in torch; the tensor is not empty.
Range range_of(const at::Tensor& t) {
  int64_t last = 0;
  const auto sizes = t.sizes(), strides = t.strides();
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  const auto item = static_cast<int64_t>(t.itemsize());
  const char* begin = static_cast<const char*>(t.const_data_ptr());
  return {begin, begin + (last + 1) * item};
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

at::ScalarType torch_dtype(int32_t dtype) {
  switch (dtype) {
    case KFR_BOOL: return at::kBool;
    case KFR_U8: return at::kByte;
    case KFR_I8: return at::kChar;
    case KFR_I16: return at::kShort;
    case KFR_I32: return at::kInt;
    case KFR_I64: return at::kLong;
    case KFR_F16: return at::kHalf;
    case KFR_BF16: return at::kBFloat16;
    case KFR_F32: return at::kFloat;
    case KFR_F64: return at::kDouble;
    default: return at::ScalarType::Undefined;
  }
}

bool channels_last(Target target, const at::Tensor& t) {
  if (target != Target::cuda || t.unsafeGetTensorImpl()->key_set() - kIgnored != plain_keys(target)) return false;
  return !t.is_contiguous() && (t.is_contiguous(at::MemoryFormat::ChannelsLast) || t.is_contiguous(at::MemoryFormat::ChannelsLast3d));
}

void Call::wrapped(const at::Tensor& t) {
  const int32_t dtype = dtype_of(t.scalar_type());
  if (dtype == 0) return refuse(Reason::kDtype);
  const void* value = t.const_data_ptr();
  if (value == nullptr) return refuse(Reason::kNoData);  // its storage was taken away
  int64_t bits = 0;
  std::memcpy(&bits, value, t.itemsize());
  words_.wrapped(dtype, t.unsafeGetTensorImpl()->is_wrapped_number(), bits);
}

void Call::tensor(const at::Tensor& t) {
  if (reason_ != Reason::kServed) return;
  const at::TensorImpl* impl = t.unsafeGetTensorImpl();
  const c10::DispatchKeySet own = impl->key_set() - kIgnored;
  if (C10_UNLIKELY(own != plain_)) {
    if (target_ == Target::cuda && own == plain_keys(Target::host) && impl->dim() == 0) return wrapped(t);
    return refuse(Reason::kKeySet);
  }
  if (C10_UNLIKELY(impl->is_wrapped_number())) { return target_ == Target::host ? wrapped(t) : refuse(Reason::kKeySet); }
  const int32_t dtype = dtype_of(t.scalar_type());
  if (C10_UNLIKELY(dtype == 0)) return refuse(Reason::kDtype);
  if (C10_UNLIKELY(impl->numel() == 0)) return refuse(Reason::kEmpty);
  if (target_ == Target::cuda) {
    const int32_t device = t.get_device();
    if (slots_n_ != 0 && device != device_) return refuse(Reason::kDevice);
    device_ = device;
  }
  if (C10_UNLIKELY(slots_n_ == kMaxSlots)) return refuse(Reason::kTooLarge);
  slots_[slots_n_++] = &t;
  words_.tensor(dtype, impl->dim(), impl->sizes().data(), impl->strides().data());
}

void Call::targets(const at::Tensor* const* written, uint32_t count) {
  if (reason_ != Reason::kServed) return;
  if (count > kMaxTargets) return refuse(Reason::kTooLarge);
  for (uint32_t o = 0; o < count; ++o) {
    const at::Tensor& target = *written[o];
    if (!target.defined()) return refuse(Reason::kNoTensor);  // eager says what is wrong with it
    uint32_t own = slots_n_, first = slots_n_;
    for (uint32_t i = slots_n_; i-- > 0;) {
      if (slots_[i] == written[o]) own = i;
      if (same_memory(*slots_[i], target)) first = i;
    }
    if (own == slots_n_) return refuse(Reason::kNoTensor);  // a wrapped number cannot be written
    const Range range = range_of(target);
    for (uint32_t i = 0; i < slots_n_; ++i) {
      if (i != own && i != first && range.overlaps(range_of(*slots_[i]))) return refuse(Reason::kOverlap);
    }
    aliases_[o] = static_cast<int32_t>(first);
    words_.alias(first);
  }
}

}  // namespace kft
