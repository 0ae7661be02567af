// buffer.cc: reservation, mapping, sealing.
#include "buffer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "error.h"
#include "memfile.h"

namespace {

constexpr uint64_t kGuard = uint64_t{1} << 20;  // reserved addresses only; a wide one catches long strides too
constexpr uint64_t kBytesMax = uint64_t{1} << 42;

uint64_t whole_pages(uint64_t bytes) {
  if (bytes == 0 || bytes > kBytesMax)
    throw kf::Error(KFR_BAD_ARGUMENT, "make a buffer of " + std::to_string(bytes) + " bytes (expected 1 to 2^42)");
  auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

[[noreturn]] void refuse(const char* what, uint64_t bytes, int number) {
  throw kf::Error(KFR_SYSTEM, std::string(what) + " a buffer of " + std::to_string(bytes) + " bytes: " + kf::errno_text(number));
}

}  // namespace

kfr_buffer::kfr_buffer(uint64_t bytes) : bytes_(whole_pages(bytes)) {
  fd_ = kf::open_memory("kernelforge-buffer");
  int number = 0;
  if (ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) number = errno;
  // Without these the importing process could shrink the file, and our next access would kill us.
  if (number == 0 && fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) number = errno;
  if (number != 0) {
    close(fd_);
    refuse("make", bytes_, number);
  }
  try {
    map(fd_, true);
  } catch (...) {
    close(fd_);
    throw;
  }
}

kfr_buffer::kfr_buffer(int fd, uint64_t bytes, bool writable) : bytes_(whole_pages(bytes)) {
  struct stat info{};
  if (fstat(fd, &info) != 0) refuse("import", bytes_, errno);
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) < bytes_) {
    throw kf::Error(KFR_BAD_ARGUMENT, "import a buffer of " + std::to_string(bytes_) + " bytes: descriptor " + std::to_string(fd) +
                                          " is not a memory file of that size (it has " + std::to_string(info.st_size) + " bytes)");
  }
  map(fd, writable);
}

void kfr_buffer::map(int fd, bool writable) {
  base_ = mmap(nullptr, bytes_ + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base_ == MAP_FAILED) refuse("reserve", bytes_, errno);
  void* at = static_cast<char*>(base_) + kGuard;
  data_ = mmap(at, bytes_, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
  if (data_ != MAP_FAILED) return;
  int number = errno;
  munmap(base_, bytes_ + 2 * kGuard);
  refuse("map", bytes_, number);
}

kfr_buffer::~kfr_buffer() {
  munmap(base_, bytes_ + 2 * kGuard);
  if (fd_ >= 0) close(fd_);
}
