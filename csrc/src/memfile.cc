// memfile.cc: memfd_create, sealing and mapping.
#include "memfile.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "error.h"

namespace kf {

int open_memory(const char* name) {
  // Kernels from 6.3 on may seal a memory file against execution unless told otherwise; older ones do not know the flag.
  constexpr unsigned kExec = 0x10;
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kExec);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) throw Error(KFR_SYSTEM, "make a memory file: " + errno_text(errno));
  return fd;
}

MemFile::MemFile(const char* name, std::string_view bytes) : size_(bytes.size()) {
  if (size_ == 0) throw Error(KFR_BAD_CODE, "load the image: it is empty");
  fd_ = open_memory(name);
  auto refuse = [&](const char* what) {
    int number = errno;
    close(fd_);
    throw Error(KFR_SYSTEM, std::string(what) + " a memory file of " + std::to_string(size_) + " bytes: " + errno_text(number));
  };
  for (size_t done = 0; done < size_;) {
    ssize_t n = write(fd_, bytes.data() + done, size_ - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) refuse("write");
    done += static_cast<size_t>(n);
  }
  if (fcntl(fd_, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) refuse("seal");
  map_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (map_ == MAP_FAILED) refuse("map");
}

MemFile::~MemFile() {
  munmap(map_, size_);
  close(fd_);
}

}  // namespace kf
