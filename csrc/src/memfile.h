// memfile.h: anonymous files in memory: sealed copies of code images, and the storage of shared buffers.
#ifndef KF_MEMFILE_H_
#define KF_MEMFILE_H_

#include <cstdint>
#include <string_view>

namespace kf {

// A descriptor of a fresh memory file, closed on exec. Throws Error(KFR_SYSTEM).
int open_memory(const char* name);

// A copy of some bytes that nobody can change: written, then sealed against writing and resizing.
class MemFile {
 public:
  MemFile(const char* name, std::string_view bytes);
  ~MemFile();
  MemFile(const MemFile&) = delete;
  MemFile& operator=(const MemFile&) = delete;
  int fd() const { return fd_; }
  std::string_view bytes() const { return {static_cast<const char*>(map_), size_}; }

 private:
  int fd_ = -1;
  void* map_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kf
#endif  // KF_MEMFILE_H_
