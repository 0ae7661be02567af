// Memory with guard pages as torch tensors, of the host or a CUDA device: the buffers between referee and worker (kf_runtime.h, kfr_buffer).
// None of it comes from torch's allocators, so a worker that is killed leaves nothing of the user's process behind or in use.
#ifndef KFT_BUFFER_H_
#define KFT_BUFFER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kf_runtime.h"

namespace kft {

class Buffer {
 public:
  explicit Buffer(uint64_t bytes, int32_t device = KFR_HOST);
  int32_t device() const { return device_; }                          // KFR_HOST or a CUDA ordinal
  uint64_t bytes() const { return kfr_buffer_bytes(handle_.get()); }  // whole pages
  int32_t fd() const { return kfr_buffer_fd(handle_.get()); }         // owned by the buffer
  void* data() const { return kfr_buffer_data(handle_.get()); }
  // Sets bytes and returns when they are set, whatever the device.
  void fill(uint64_t offset, uint64_t bytes, uint8_t value) const;
  // Gives the importing process what is here now, takes what it gave: where each has memory of its own (kfr_buffer_push).
  void push() const;
  void pull() const;
  // A tensor over this memory that keeps the buffer alive. offset in bytes; the tensor must lie inside. On CUDA the last tensor to die waits for
  // the device before the memory goes, since work that reads it may be queued on any stream.
  at::Tensor tensor(int64_t offset, at::ScalarType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) const;

 private:
  int32_t device_;
  std::shared_ptr<kfr_buffer> handle_;
};

}  // namespace kft
#endif  // KFT_BUFFER_H_
