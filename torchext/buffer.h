// Shared memory with guard pages as torch tensors: the buffers between referee and worker (kf_runtime.h, kfr_buffer).
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
  explicit Buffer(uint64_t bytes);
  uint64_t bytes() const { return kfr_buffer_bytes(handle_.get()); }  // whole pages
  int32_t fd() const { return kfr_buffer_fd(handle_.get()); }         // owned by the buffer
  void* data() const { return kfr_buffer_data(handle_.get()); }
  // A tensor over this memory that keeps the buffer alive. offset in bytes; the tensor must lie inside.
  at::Tensor tensor(int64_t offset, at::ScalarType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) const;

 private:
  std::shared_ptr<kfr_buffer> handle_;
};

}  // namespace kft
#endif  // KFT_BUFFER_H_
