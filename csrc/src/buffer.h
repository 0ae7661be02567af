// buffer.h: memory that two processes share, with an unmapped range on both sides, so that an access past either end faults.
//
// One handle, made by a target: of a memory file (buffer.cc, host) or of device memory (cuda_buffer.cc).
#ifndef KF_BUFFER_H_
#define KF_BUFFER_H_

#include <cstdint>
#include <memory>

struct kfr_buffer {
 public:
  virtual ~kfr_buffer() = default;
  kfr_buffer(const kfr_buffer&) = delete;
  kfr_buffer& operator=(const kfr_buffer&) = delete;

  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }
  // Throws Error(KFR_BAD_ARGUMENT) for a range that does not lie inside, or read-only memory.
  void fill(uint64_t offset, uint64_t bytes, uint8_t value) const;
  // Where each side has memory of its own: gives the other side what is here now, takes what the other side gave. Else there is nothing to do.
  virtual void push() const {}
  virtual void pull() const {}

 protected:
  kfr_buffer() = default;
  virtual void set(uint64_t offset, uint64_t bytes, uint8_t value) const = 0;

  uint64_t bytes_ = 0;  // whole pages
  int fd_ = -1;         // owned by the maker's buffer; -1 for an imported one
  void* data_ = nullptr;
  bool writable_ = true;
};

namespace kf {

// Rounds up to whole pages of a size. Throws Error(KFR_BAD_ARGUMENT) for no bytes, or more than any machine has.
uint64_t whole_pages(uint64_t bytes, uint64_t page);

// A new memory file, sealed against resizing; and somebody else's.
std::unique_ptr<kfr_buffer> make_host_buffer(uint64_t bytes);
std::unique_ptr<kfr_buffer> import_host_buffer(int fd, uint64_t bytes, bool writable);

}  // namespace kf
#endif  // KF_BUFFER_H_
