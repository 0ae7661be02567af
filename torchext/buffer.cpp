#include "buffer.h"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>

#include "device.h"
#include "plans.h"

namespace kft {

namespace {

// Unmapping under a kernel that still runs would fault it, and with it the whole context.
void release(kfr_buffer* buffer, int32_t device) {
  if (device != KFR_HOST) {
    try {
      c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeDevice(static_cast<c10::DeviceIndex>(device));
    } catch (const std::exception&) {
      // The context is lost or the process is at its end: nothing runs any more.
    }
  }
  kfr_buffer_free(buffer);
}

std::shared_ptr<kfr_buffer> make(uint64_t bytes, int32_t device) {
  if (device != KFR_HOST) need_cuda("make a buffer on a CUDA device");
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  check(kfr_buffer_create(bytes, device, &buffer, &error), error);
  return {buffer, [device](kfr_buffer* made) { release(made, device); }};
}

}  // namespace

Buffer::Buffer(uint64_t bytes, int32_t device) : device_(device), handle_(make(bytes, device)) {}

void Buffer::fill(uint64_t offset, uint64_t bytes, uint8_t value) const {
  kfr_error error{};
  check(kfr_buffer_fill(handle_.get(), offset, bytes, value, &error), error);
}

void Buffer::push() const {
  kfr_error error{};
  check(kfr_buffer_push(handle_.get(), &error), error);
}

void Buffer::pull() const {
  kfr_error error{};
  check(kfr_buffer_pull(handle_.get(), &error), error);
}

at::Tensor Buffer::tensor(int64_t offset, at::ScalarType dtype, const std::vector<int64_t>& sizes,
                          const std::vector<int64_t>& strides) const {
  const auto item = static_cast<int64_t>(c10::elementSize(dtype));
  const auto outside = [&] {
    return RuntimeFault(KFR_BAD_ARGUMENT,
                        "view a buffer of " + std::to_string(bytes()) + " bytes at " + std::to_string(offset) +
                            ": the tensor does not lie inside (expected as many sizes as strides, none negative, an aligned offset)");
  };
  if (sizes.size() != strides.size() || offset < 0 || offset % item != 0) throw outside();
  int64_t last = 0;
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    if (sizes[i] < 0 || strides[i] < 0) throw outside();
    empty = empty || sizes[i] == 0;
    if (sizes[i] > 0 && (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last)))
      throw outside();
  }
  int64_t end = offset;
  if (!empty &&
      (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, item, &last) || __builtin_add_overflow(offset, last, &end)))
    throw outside();
  if (end < 0 || static_cast<uint64_t>(end) > bytes()) throw outside();
  const c10::Device where =
      device_ == KFR_HOST ? c10::Device(c10::DeviceType::CPU) : c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device_));
  if (where.is_cuda()) at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return at::from_blob(
      static_cast<char*>(data()) + offset, sizes, strides, [keep = handle_](void*) {}, at::TensorOptions(dtype).device(where), where);
}

}  // namespace kft
