// cuda_buffer.h: device memory that two processes share (kfr_buffer on CUDA).
#ifndef KF_CUDA_BUFFER_H_
#define KF_CUDA_BUFFER_H_

#include <memory>

#include "buffer.h"
#include "cuda_device.h"

namespace kf::cuda {

// Virtual memory exported as a file descriptor; legacy IPC where the device refuses that (or KERNELFORGE_BUFFERS is `ipc`); copies where it
// refuses both (or the variable is `copy`).
std::unique_ptr<kfr_buffer> make_buffer(Device& device, uint64_t bytes);
// Tells by the descriptor which of them it is.
std::unique_ptr<kfr_buffer> import_buffer(Device& device, int fd, uint64_t bytes, bool writable);

// Makes, exports, imports and maps one page, read-only too.
SharedMemory try_virtual_memory(const Device& device) noexcept;

}  // namespace kf::cuda
#endif  // KF_CUDA_BUFFER_H_
