// buffer.h: shared memory with an unmapped range on both sides, so that an access past either end faults.
#ifndef KF_BUFFER_H_
#define KF_BUFFER_H_

#include <cstdint>

// [guard | pages | guard], one reservation; only the pages in the middle are mapped from the memory file.
struct kfr_buffer {
 public:
  explicit kfr_buffer(uint64_t bytes);                // a new memory file, sealed against resizing
  kfr_buffer(int fd, uint64_t bytes, bool writable);  // somebody else's
  ~kfr_buffer();
  kfr_buffer(const kfr_buffer&) = delete;
  kfr_buffer& operator=(const kfr_buffer&) = delete;

  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

 private:
  void map(int fd, bool writable);

  uint64_t bytes_;  // whole pages
  int fd_ = -1;     // owned; -1 for an imported buffer
  void* base_ = nullptr;
  void* data_ = nullptr;
};

#endif  // KF_BUFFER_H_
