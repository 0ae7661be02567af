// cuda_buffer.cc: virtual memory with guards; legacy IPC carried by a small sealed file; memory on each side with copies through a file.
#include "cuda_buffer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "error.h"
#include "memfile.h"

namespace kf::cuda {
namespace {

constexpr uint64_t kPage = uint64_t{2} << 20, kGuard = kPage;

std::string about(const char* what, uint64_t bytes) {
  return std::string(what) + " a device buffer of " + std::to_string(bytes) + " bytes";
}

AllocationProp exportable(const Device& device) {
  AllocationProp prop{};
  prop.type = kPinned;
  prop.handle_types = kPosixDescriptor;
  prop.location = {kOnDevice, device.ordinal()};
  return prop;
}

// The device may ask for larger pages than ours.
uint64_t page_bytes(const Device& device) {
  size_t granularity = 0;
  AllocationProp prop = exportable(device);
  check(device.driver().cuMemGetAllocationGranularity(&granularity, &prop, kGranularityMinimum), "ask for the page size of device memory");
  return std::max<uint64_t>(kPage, granularity);
}

// A handle of physical device memory, released with this object; mappings of it stay.
class Physical {
 public:
  Physical(const Device& device, uint64_t bytes) : driver_(device.driver()) {
    AllocationProp prop = exportable(device);
    Result result = driver_.cuMemCreate(&handle_, bytes, &prop, 0);
    if (result != kSuccess) refuse(result, about("make", bytes));
  }
  Physical(const Device& device, int fd, uint64_t bytes) : driver_(device.driver()) {
    // The driver takes the descriptor's number in place of a pointer, and leaves the descriptor itself to us.
    Result result = driver_.cuMemImportFromShareableHandle(&handle_, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kPosixDescriptor);
    if (result != kSuccess) refuse(result, about("import", bytes) + " from descriptor " + std::to_string(fd), KFR_BAD_ARGUMENT);
  }
  ~Physical() { driver_.cuMemRelease(handle_); }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  MemoryHandle get() const { return handle_; }

  int export_descriptor(uint64_t bytes) const {
    int fd = -1;
    Result result = driver_.cuMemExportToShareableHandle(&fd, handle_, kPosixDescriptor, 0);
    if (result != kSuccess) refuse(result, about("export", bytes));
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
  }

 private:
  const Driver& driver_;
  MemoryHandle handle_ = 0;
};

// [guard | pages | guard] of device addresses; only the pages in the middle are backed.
class Mapping {
 public:
  Mapping(const Device& device, const Physical& memory, uint64_t bytes, bool writable) : device_(device), bytes_(bytes) {
    const Driver& d = device.driver();
    Result result = d.cuMemAddressReserve(&base_, bytes_ + 2 * kGuard, kPage, 0, 0);
    if (result != kSuccess) refuse(result, about("reserve addresses for", bytes));
    result = d.cuMemMap(data(), bytes_, 0, memory.get(), 0);
    if (result == kSuccess) {
      result = allow(writable ? kReadWrite : kRead);
      if (result != kSuccess && !writable) {  // not every driver knows read-only device memory
        result = allow(kReadWrite);
        read_only_ = false;
      } else {
        read_only_ = !writable;
      }
      if (result != kSuccess) d.cuMemUnmap(data(), bytes_);
    }
    if (result == kSuccess) return;
    d.cuMemAddressFree(base_, bytes_ + 2 * kGuard);
    refuse(result, about("map", bytes), KFR_BAD_ARGUMENT);  // such as more bytes than there are behind the handle
  }
  ~Mapping() {
    const Driver& d = device_.driver();
    d.cuMemUnmap(data(), bytes_);
    d.cuMemAddressFree(base_, bytes_ + 2 * kGuard);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Address data() const { return base_ + kGuard; }
  bool read_only() const { return read_only_; }

 private:
  Result allow(int32_t flags) const {
    AccessDesc access{{kOnDevice, device_.ordinal()}, flags};
    return device_.driver().cuMemSetAccess(data(), bytes_, &access, 1);
  }
  const Device& device_;
  uint64_t bytes_;
  Address base_ = 0;
  bool read_only_ = false;
};

class DeviceBuffer : public kfr_buffer {
 public:
  explicit DeviceBuffer(Device& device) : device_(device) {}

 protected:
  void at(Address address) { data_ = reinterpret_cast<void*>(address); }
  void clear() const { set(0, bytes_, 0); }
  void set(uint64_t offset, uint64_t bytes, uint8_t value) const override {
    Scope scope(device_);
    const Driver& d = device_.driver();
    // On the legacy stream, after everything that the process queued on streams which wait for it, such as torch's default stream.
    check(d.cuMemsetD8Async(reinterpret_cast<Address>(data_) + offset, value, bytes, nullptr), "fill a device buffer");
    check(d.cuStreamSynchronize(nullptr), "fill a device buffer");
  }
  Device& device_;
};

class VirtualBuffer final : public DeviceBuffer {
 public:
  VirtualBuffer(Device& device, uint64_t bytes) : DeviceBuffer(device) {
    Scope scope(device);
    bytes_ = whole_pages(bytes, page_bytes(device));
    Physical memory(device, bytes_);
    mapping_ = std::make_unique<Mapping>(device, memory, bytes_, true);
    at(mapping_->data());
    clear();
    fd_ = memory.export_descriptor(bytes_);
  }
  VirtualBuffer(Device& device, int fd, uint64_t bytes, bool writable) : DeviceBuffer(device) {
    Scope scope(device);
    bytes_ = whole_pages(bytes, page_bytes(device));
    Physical memory(device, fd, bytes_);
    mapping_ = std::make_unique<Mapping>(device, memory, bytes_, writable);
    at(mapping_->data());
    writable_ = writable;
  }
  ~VirtualBuffer() override {
    if (fd_ >= 0) close(fd_);
    try {
      Scope scope(device_);
      mapping_.reset();
    } catch (const Error&) {}  // the context is lost, and its memory with it
  }

 private:
  std::unique_ptr<Mapping> mapping_;
};

// What the descriptor of an IPC buffer holds.
struct IpcRecord {
  char magic[8];
  uint64_t bytes;
  uint8_t device[16];  // UUID: a handle opened on another device would be another memory
  IpcHandle handle;
};
constexpr std::string_view kIpcMagic = "KFR-IPC1";
static_assert(sizeof(IpcRecord) == 96 && kIpcMagic.size() == sizeof(IpcRecord::magic));

class IpcBuffer final : public DeviceBuffer {
 public:
  IpcBuffer(Device& device, uint64_t bytes) : DeviceBuffer(device) {
    Scope scope(device);
    bytes_ = whole_pages(bytes, kPage);
    const Driver& d = device.driver();
    Result result = d.cuMemAlloc(&address_, bytes_);
    if (result != kSuccess) refuse(result, about("make", bytes_));
    try {
      at(address_);
      clear();
      IpcRecord record{};
      std::memcpy(record.magic, kIpcMagic.data(), sizeof record.magic);
      record.bytes = bytes_;
      std::memcpy(record.device, device.info().uuid, sizeof record.device);
      check(d.cuIpcGetMemHandle(&record.handle, address_), "export a device buffer by IPC");
      file_ = std::make_unique<MemFile>("kernelforge-ipc", std::string_view(reinterpret_cast<const char*>(&record), sizeof record));
      fd_ = file_->fd();
    } catch (...) {
      d.cuMemFree(address_);
      throw;
    }
  }
  IpcBuffer(Device& device, const IpcRecord& record, uint64_t bytes, bool writable) : DeviceBuffer(device) {
    Scope scope(device);
    bytes_ = whole_pages(bytes, kPage);
    writable_ = writable;  // for our own calls; the driver has no read-only IPC
    if (record.bytes < bytes_) {
      throw Error(KFR_BAD_ARGUMENT, about("import", bytes_) + ": it has " + std::to_string(record.bytes) + " bytes");
    }
    if (std::memcmp(record.device, device.info().uuid, sizeof record.device) != 0) {
      throw Error(KFR_BAD_ARGUMENT, about("import", bytes_) + ": it lies on another device",
                  "both processes must see the same device under the ordinal " + std::to_string(device.ordinal()));
    }
    Result result = device.driver().cuIpcOpenMemHandle(&address_, record.handle, kLazyPeerAccess);
    if (result != kSuccess) refuse(result, about("import", bytes_) + " by IPC");
    at(address_);
  }
  ~IpcBuffer() override {
    try {
      Scope scope(device_);
      if (file_ != nullptr)
        device_.driver().cuMemFree(address_);
      else
        device_.driver().cuIpcCloseMemHandle(address_);
    } catch (const Error&) {}
  }

 private:
  Address address_ = 0;
  std::unique_ptr<MemFile> file_;  // the maker's; its descriptor is fd_
};

// Memory of its own on each side. What they share is memory of the host, whose descriptor is the buffer's; behind the bytes it says what it is.
constexpr std::string_view kCopyMagic = "KFR-CPY1";
constexpr uint64_t kCopyTail = 4096;

class CopyBuffer final : public DeviceBuffer {
 public:
  CopyBuffer(Device& device, uint64_t bytes) : DeviceBuffer(device), shared_(make_host_buffer(whole_pages(bytes, kPage) + kCopyTail)) {
    std::memcpy(static_cast<char*>(shared_->data()) + shared_->bytes() - kCopyTail, kCopyMagic.data(), kCopyMagic.size());
    allocate();
    try {
      Scope scope(device);
      clear();
    } catch (...) {
      release();
      throw;
    }
    fd_ = shared_->fd();
  }
  CopyBuffer(Device& device, int fd, uint64_t bytes, bool writable)
      : DeviceBuffer(device), shared_(import_host_buffer(fd, whole_pages(bytes, kPage) + kCopyTail, true)) {
    writable_ = writable;  // for our own calls; a kernel can write to it, which the other side sees when it pulls
    allocate();
    try {
      pull();
    } catch (...) {
      release();
      throw;
    }
  }
  ~CopyBuffer() override { release(); }

  void push() const override { copy(host(), reinterpret_cast<Address>(data_), "push"); }
  void pull() const override { copy(reinterpret_cast<Address>(data_), host(), "pull"); }

 private:
  void allocate() {
    bytes_ = shared_->bytes() - kCopyTail;
    Scope scope(device_);
    Result result = device_.driver().cuMemAlloc(&address_, bytes_);
    if (result != kSuccess) refuse(result, about("make", bytes_));
    at(address_);
  }
  void release() noexcept {
    try {
      Scope scope(device_);
      device_.driver().cuMemFree(address_);
    } catch (const Error&) {}
  }
  Address host() const { return reinterpret_cast<Address>(shared_->data()); }
  void copy(Address to, Address from, const char* what) const {
    Scope scope(device_);
    const Driver& d = device_.driver();
    check(d.cuCtxSynchronize(), "wait for the device");
    Result result = d.cuMemcpyAsync(to, from, bytes_, nullptr);
    if (result == kSuccess) result = d.cuStreamSynchronize(nullptr);
    if (result != kSuccess) refuse(result, about(what, bytes_));
  }

  std::unique_ptr<kfr_buffer> shared_;
  Address address_ = 0;
};

bool is_copy(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < static_cast<off_t>(kCopyTail)) return false;
  char magic[kCopyMagic.size()];
  return pread(fd, magic, sizeof magic, info.st_size - static_cast<off_t>(kCopyTail)) == static_cast<ssize_t>(sizeof magic) &&
         std::memcmp(magic, kCopyMagic.data(), sizeof magic) == 0;
}

// Whether the driver lets memory out by a legacy IPC handle: not on every system, and not in every container.
bool ipc_works(const Device& device) {
  Scope scope(device);
  const Driver& d = device.driver();
  Address address = 0;
  Result result = d.cuMemAlloc(&address, kPage);
  if (result != kSuccess) refuse(result, about("make", kPage));
  IpcHandle handle{};
  result = d.cuIpcGetMemHandle(&handle, address);
  d.cuMemFree(address);
  return result == kSuccess;
}

bool read_record(int fd, IpcRecord* record) {
  struct stat info{};
  if (fstat(fd, &info) != 0)
    throw Error(KFR_SYSTEM, "import a device buffer from descriptor " + std::to_string(fd) + ": " + errno_text(errno));
  if (!S_ISREG(info.st_mode) || info.st_size != static_cast<off_t>(sizeof *record)) return false;
  return pread(fd, record, sizeof *record, 0) == static_cast<ssize_t>(sizeof *record) &&
         std::memcmp(record->magic, kIpcMagic.data(), sizeof record->magic) == 0;
}

}  // namespace

std::unique_ptr<kfr_buffer> make_buffer(Device& device, uint64_t bytes) {
  const char* given = std::getenv("KERNELFORGE_BUFFERS");
  std::string_view wanted = given == nullptr ? "" : given;
  if (wanted != "ipc" && wanted != "copy" && device.shared_memory().vmm) return std::make_unique<VirtualBuffer>(device, bytes);
  if (wanted == "ipc" || (wanted != "copy" && ipc_works(device))) return std::make_unique<IpcBuffer>(device, bytes);
  return std::make_unique<CopyBuffer>(device, bytes);
}

std::unique_ptr<kfr_buffer> import_buffer(Device& device, int fd, uint64_t bytes, bool writable) {
  IpcRecord record;
  if (read_record(fd, &record)) return std::make_unique<IpcBuffer>(device, record, bytes, writable);
  if (is_copy(fd)) return std::make_unique<CopyBuffer>(device, fd, bytes, writable);
  return std::make_unique<VirtualBuffer>(device, fd, bytes, writable);
}

SharedMemory try_virtual_memory(const Device& device) noexcept {
  SharedMemory found{false, false};
  try {
    Scope scope(device);
    uint64_t bytes = page_bytes(device);
    Physical memory(device, bytes);
    int fd = memory.export_descriptor(bytes);
    try {
      Physical again(device, fd, bytes);
      Mapping mapping(device, again, bytes, false);
      found = {true, mapping.read_only()};
    } catch (const Error&) {}
    close(fd);
  } catch (const Error&) {}
  return found;
}

}  // namespace kf::cuda
