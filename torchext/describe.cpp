#include "describe.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>

namespace kft {

namespace {

int64_t span_elements(const at::Tensor& t) {
  int64_t last = 0;
  for (int64_t i = 0; i < t.dim(); ++i) {
    if (t.size(i) == 0) return 0;
    last += (t.size(i) - 1) * t.stride(i);
  }
  return last + 1;
}

}  // namespace

uint64_t span_bytes(const at::Tensor& t) { return static_cast<uint64_t>(span_elements(t)) * t.itemsize(); }

at::Tensor copy_of(const at::Tensor& t) {
  const int64_t span = span_elements(t);
  at::Tensor copy = at::empty({span}, t.options().requires_grad(false));
  copy.copy_(t.detach().as_strided({span}, {1}));
  return copy.as_strided(t.sizes(), t.strides());
}

const char* layout_of(const at::Tensor& t) {
  if (t.is_contiguous()) return "contiguous";
  if (t.is_contiguous(at::MemoryFormat::ChannelsLast) || t.is_contiguous(at::MemoryFormat::ChannelsLast3d)) return "channels_last";
  return "strided";
}

void Describe::tensor(const at::Tensor& t) {
  const at::TensorImpl* impl = t.unsafeGetTensorImpl();
  const bool number = impl->is_wrapped_number() || (target_ == Target::cuda && t.is_cpu() && t.dim() == 0);
  if (number && dtype_of(t.scalar_type()) != 0 && !impl->is_python_dispatch() && t.const_data_ptr() != nullptr) {
    Argument& made = add("wrapped");
    made.dtype = dtype_of(t.scalar_type());
    made.flag = impl->is_wrapped_number();
    std::memcpy(&made.bits, t.const_data_ptr(), t.itemsize());
    return;
  }
  Argument& made = add("tensor");
  // A trace describes calls that no plan could serve, too: sparse, nested and symbolic tensors have no sizes or strides to tell.
  if (t.layout() != at::kStrided || t.is_nested() || impl->has_symbolic_sizes_strides()) return;
  made.dtype = dtype_of(t.scalar_type());
  made.sizes = t.sizes().vec();
  made.strides = t.strides().vec();
  if (payload_) made.payload = copy_of(t);
}

}  // namespace kft
