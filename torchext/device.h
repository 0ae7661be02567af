// A CUDA device by torch's device-generic interfaces: which one is current, its current stream, its allocator.
//
// No CUDA header and no CUDA library: what torch's own CUDA half registered is asked through c10 and ATen, so the same binary serves under a torch
// that has that half and under one that has not.
#ifndef KFT_DEVICE_H_
#define KFT_DEVICE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>

namespace kft {

// Makes a device current for its lifetime and knows its current stream. The cost of a device that is current already is one query.
//
// exchangeDevice, and not a look at getDevice first: torch may have put off a switch on this thread, and only an exchange or a set carries it out.
class OnDevice {
 public:
  explicit OnDevice(int32_t device)
      : guard_(c10::DeviceType::CUDA),
        device_(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)),
        before_(guard_.exchangeDevice(device_)) {}
  ~OnDevice() {
    if (C10_UNLIKELY(before_ != device_)) guard_.uncheckedSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void* stream() const { return guard_.getStreamNativeHandle(guard_.getStream(device_)); }  // a CUstream; NULL: the default stream

 private:
  c10::impl::VirtualGuardImpl guard_;
  c10::Device device_, before_;
};

// Whether this torch was built with CUDA. Asks no driver.
bool torch_has_cuda();
// Throws RuntimeFault(KFR_NO_DEVICE) unless torch was built with CUDA; `what` was tried.
void need_cuda(const char* what);

// The allocator that eager's outputs come from: the caching allocator, or the one that the user put in its place. Throws without CUDA.
c10::Allocator* cuda_allocator();

// Whether work queued on the stream goes into a graph instead of running. Such work must not be waited for, and memory it writes holds nothing yet.
bool stream_is_capturing(void* stream);

// The current stream of a device, for the functions that take one beside their ordinal; NULL for KFR_HOST.
void* current_stream(int32_t device);

}  // namespace kft
#endif  // KFT_DEVICE_H_
