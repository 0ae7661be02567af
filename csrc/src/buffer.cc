// buffer.cc: what all buffers share, and those of the host: reservation, mapping, sealing.
#include "buffer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "error.h"
#include "memfile.h"

void kfr_buffer::fill(uint64_t offset, uint64_t bytes, uint8_t value) const {
  if (offset > bytes_ || bytes > bytes_ - offset) {
    throw kf::Error(KFR_BAD_ARGUMENT, "fill " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of a buffer of " +
                                          std::to_string(bytes_) + " bytes: they do not lie inside");
  }
  if (!writable_) throw kf::Error(KFR_BAD_ARGUMENT, "fill a buffer of " + std::to_string(bytes_) + " bytes: it was imported read-only");
  if (bytes > 0) set(offset, bytes, value);
}

namespace kf {
namespace {

constexpr uint64_t kGuard = uint64_t{1} << 20;  // reserved addresses only; a wide one catches long strides too
constexpr uint64_t kBytesMax = uint64_t{1} << 42;

uint64_t host_pages(uint64_t bytes) { return whole_pages(bytes, static_cast<uint64_t>(sysconf(_SC_PAGESIZE))); }

[[noreturn]] void refuse(const char* what, uint64_t bytes, int number) {
  throw Error(KFR_SYSTEM, std::string(what) + " a buffer of " + std::to_string(bytes) + " bytes: " + errno_text(number));
}

// [guard | pages | guard], one reservation; only the pages in the middle are mapped from the memory file.
class HostBuffer final : public kfr_buffer {
 public:
  explicit HostBuffer(uint64_t bytes) {
    bytes_ = host_pages(bytes);
    fd_ = open_memory("kernelforge-buffer");
    int number = 0;
    if (ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) number = errno;
    // Without these the importing process could shrink the file, and our next access would kill us.
    if (number == 0 && fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) number = errno;
    if (number != 0) {
      close(fd_);
      refuse("make", bytes_, number);
    }
    try {
      map(fd_);
    } catch (...) {
      close(fd_);
      throw;
    }
  }
  HostBuffer(int fd, uint64_t bytes, bool writable) {
    bytes_ = host_pages(bytes);
    writable_ = writable;
    struct stat info{};
    if (fstat(fd, &info) != 0) refuse("import", bytes_, errno);
    if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) < bytes_) {
      throw Error(KFR_BAD_ARGUMENT, "import a buffer of " + std::to_string(bytes_) + " bytes: descriptor " + std::to_string(fd) +
                                        " is not a memory file of that size (it has " + std::to_string(info.st_size) + " bytes)");
    }
    map(fd);
  }
  ~HostBuffer() override {
    munmap(base_, bytes_ + 2 * kGuard);
    if (fd_ >= 0) close(fd_);
  }

 private:
  void map(int fd) {
    base_ = mmap(nullptr, bytes_ + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) refuse("reserve", bytes_, errno);
    void* at = static_cast<char*>(base_) + kGuard;
    data_ = mmap(at, bytes_, writable_ ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    if (data_ != MAP_FAILED) return;
    int number = errno;
    munmap(base_, bytes_ + 2 * kGuard);
    refuse("map", bytes_, number);
  }
  void set(uint64_t offset, uint64_t bytes, uint8_t value) const override { std::memset(static_cast<char*>(data_) + offset, value, bytes); }

  void* base_ = nullptr;
};

}  // namespace

uint64_t whole_pages(uint64_t bytes, uint64_t page) {
  if (bytes == 0 || bytes > kBytesMax)
    throw Error(KFR_BAD_ARGUMENT, "make a buffer of " + std::to_string(bytes) + " bytes (expected 1 to 2^42)");
  return (bytes + page - 1) / page * page;
}

std::unique_ptr<kfr_buffer> make_host_buffer(uint64_t bytes) { return std::make_unique<HostBuffer>(bytes); }
std::unique_ptr<kfr_buffer> import_host_buffer(int fd, uint64_t bytes, bool writable) {
  return std::make_unique<HostBuffer>(fd, bytes, writable);
}

}  // namespace kf
