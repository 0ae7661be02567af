// fake_cuda_memory.cc: device memory as memory files, mapped in the host where access is allowed and PROT_NONE everywhere else.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fake_cuda_state.h"

namespace fake {
namespace {

struct Mapping {
  size_t bytes;
  int fd;  // of the physical memory; owned
  bool accessible;
};
struct Block {
  size_t bytes;
  int fd;  // owned
};
struct Books {
  std::map<MemoryHandle, Block> handles;
  std::map<Address, size_t> reservations;
  std::map<Address, Mapping> mappings;
  std::map<Address, Block> memory, imported;
  MemoryHandle next_handle = 1;
};
Books& books() {
  static Books& b = *new Books;
  return b;
}

int new_memory(size_t bytes) {
  int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  std::abort();
}

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

char* host(Address address) { return reinterpret_cast<char*>(address); }

// Whole memory of a file, at an address that is a multiple of the page size of devices.
Address map_aligned(size_t bytes, int fd) {
  void* at = mmap(nullptr, bytes + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  Address base = (reinterpret_cast<Address>(at) + kPage - 1) / kPage * kPage;
  if (fd >= 0 && mmap(host(base), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) return 0;
  return base;  // what was reserved around it stays so: addresses are never handed out twice, which makes use after free visible
}

// Forgets a piece: touching it faults from now on.
void close_piece(Address at, const Block& block) {
  mmap(host(at), block.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  close(block.fd);
}

}  // namespace

KF_FAKE Result cuMemAlloc_v2(Address* address, size_t bytes) {
  Call call("cuMemAlloc_v2", kStarted | kContext | kUnsafe, std::to_string(bytes));
  State& s = state();
  if (call.refused != 0) return call.refused;
  if (bytes == 0) return kInvalidValue;
  if (s.allocated + static_cast<int64_t>(bytes) > s.can["memory"]) return kOutOfMemory;
  int fd = new_memory(bytes);
  Address at = map_aligned(bytes, fd);
  std::memset(host(at), 0xA5, bytes < kPage ? bytes : kPage);  // fresh memory is not clear
  books().memory[at] = {bytes, fd};
  s.allocated += static_cast<int64_t>(bytes);
  ++s.alive["memory"];
  *address = at;
  return 0;
}
KF_FAKE Result cuMemFree_v2(Address address) {
  Call call("cuMemFree_v2", kStarted | kContext | kUnsafe);
  if (call.refused != 0) return call.refused;
  auto at = books().memory.find(address);
  if (at == books().memory.end()) {
    state().complain("cuMemFree of " + hex(address) + ", which is not allocated");
    return kInvalidValue;
  }
  state().allocated -= static_cast<int64_t>(at->second.bytes);
  --state().alive["memory"];
  close_piece(address, at->second);
  books().memory.erase(at);
  return 0;
}
KF_FAKE Result cuMemGetAllocationGranularity(size_t* bytes, const AllocationProp*, int32_t) {
  Call call("cuMemGetAllocationGranularity", kStarted);
  *bytes = kPage;
  return call.refused;
}
KF_FAKE Result cuMemCreate(MemoryHandle* handle, size_t bytes, const AllocationProp* prop, uint64_t flags) {
  Call call("cuMemCreate", kStarted | kUnsafe, std::to_string(bytes));
  State& s = state();
  if (call.refused != 0) return call.refused;
  bool good = prop->type == kPinned && prop->handle_types == kPosixDescriptor && prop->location.type == kOnDevice &&
              prop->location.id < s.can["devices"] && prop->windows == nullptr && flags == 0 && bytes > 0 && bytes % kPage == 0;
  if (!good) return kInvalidValue;
  if (s.can["vmm"] == 0) return kNotSupported;
  if (s.allocated + static_cast<int64_t>(bytes) > s.can["memory"]) return kOutOfMemory;
  *handle = books().next_handle++;
  books().handles[*handle] = {bytes, new_memory(bytes)};
  ++s.alive["handle"];
  return 0;
}
KF_FAKE Result cuMemRelease(MemoryHandle handle) {
  Call call("cuMemRelease", kStarted);
  auto at = books().handles.find(handle);
  if (at == books().handles.end()) {
    state().complain("cuMemRelease of a handle that is not alive");
    return kInvalidValue;
  }
  close(at->second.fd);  // mappings have their own
  books().handles.erase(at);
  --state().alive["handle"];
  return call.refused;
}
KF_FAKE Result cuMemExportToShareableHandle(void* os, MemoryHandle handle, int32_t type, uint64_t flags) {
  Call call("cuMemExportToShareableHandle", kStarted);
  if (call.refused != 0) return call.refused;
  auto at = books().handles.find(handle);
  if (at == books().handles.end() || type != kPosixDescriptor || flags != 0) return kInvalidValue;
  *static_cast<int*>(os) = dup(at->second.fd);  // without FD_CLOEXEC, as the driver's
  return 0;
}
KF_FAKE Result cuMemImportFromShareableHandle(MemoryHandle* handle, void* os, int32_t type) {
  Call call("cuMemImportFromShareableHandle", kStarted | kUnsafe);
  if (call.refused != 0) return call.refused;
  int fd = static_cast<int>(reinterpret_cast<intptr_t>(os));
  struct stat info{};
  char name[64] = "";
  ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1);
  bool ours = fstat(fd, &info) == 0 && n > 0 && std::strncmp(name, "/memfd:fake-cuda", 16) == 0;
  if (!ours || type != kPosixDescriptor) return kInvalidValue;
  *handle = books().next_handle++;
  books().handles[*handle] = {static_cast<size_t>(info.st_size), fcntl(fd, F_DUPFD_CLOEXEC, 0)};
  ++state().alive["handle"];
  return 0;
}
KF_FAKE Result cuMemAddressReserve(Address* address, size_t bytes, size_t alignment, Address hint, uint64_t flags) {
  Call call("cuMemAddressReserve", kStarted | kUnsafe, std::to_string(bytes));
  if (call.refused != 0) return call.refused;
  if (bytes == 0 || bytes % kPage != 0 || (alignment & (alignment - 1)) != 0 || hint != 0 || flags != 0) return kInvalidValue;
  *address = map_aligned(bytes, -1);
  books().reservations[*address] = bytes;
  ++state().alive["reservation"];
  return 0;
}
KF_FAKE Result cuMemAddressFree(Address address, size_t bytes) {
  Call call("cuMemAddressFree", kStarted);
  auto at = books().reservations.find(address);
  auto mapped = books().mappings.lower_bound(address);
  bool busy = mapped != books().mappings.end() && mapped->first < address + bytes;
  if (at == books().reservations.end() || at->second != bytes || busy) {
    state().complain("cuMemAddressFree of " + hex(address) + ": not reserved with that size, or still mapped");
    return kInvalidValue;
  }
  books().reservations.erase(at);
  --state().alive["reservation"];
  return call.refused;
}
KF_FAKE Result cuMemMap(Address address, size_t bytes, size_t offset, MemoryHandle handle, uint64_t flags) {
  Call call("cuMemMap", kStarted | kUnsafe, std::to_string(bytes));
  if (call.refused != 0) return call.refused;
  auto block = books().handles.find(handle);
  auto reservation = books().reservations.upper_bound(address);
  bool reserved =
      reservation != books().reservations.begin() && (--reservation, address + bytes <= reservation->first + reservation->second);
  if (block == books().handles.end() || !reserved || flags != 0 || offset + bytes > block->second.bytes) return kInvalidValue;
  books().mappings[address] = {bytes, fcntl(block->second.fd, F_DUPFD_CLOEXEC, 0), false};
  ++state().alive["mapping"];
  return 0;
}
KF_FAKE Result cuMemUnmap(Address address, size_t bytes) {
  Call call("cuMemUnmap", kStarted | kUnsafe);
  auto at = books().mappings.find(address);
  if (at == books().mappings.end() || at->second.bytes != bytes) {
    state().complain("cuMemUnmap of " + hex(address) + ", which is not mapped");
    return kInvalidValue;
  }
  close_piece(address, {bytes, at->second.fd});
  books().mappings.erase(at);
  --state().alive["mapping"];
  return call.refused;
}
KF_FAKE Result cuMemSetAccess(Address address, size_t bytes, const AccessDesc* access, size_t count) {
  Call call("cuMemSetAccess", kStarted | kUnsafe, std::to_string(access->flags));
  if (call.refused != 0) return call.refused;
  auto at = books().mappings.find(address);
  bool good = at != books().mappings.end() && at->second.bytes == bytes && count == 1 && access->location.type == kOnDevice;
  if (!good || (access->flags != kRead && access->flags != kReadWrite)) return kInvalidValue;
  if (access->flags == kRead && state().can["read_only"] == 0) return kNotSupported;
  int rights = access->flags == kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  return mmap(host(address), bytes, rights, MAP_SHARED | MAP_FIXED, at->second.fd, 0) == MAP_FAILED ? kInvalidValue : 0;
}

struct IpcContent {
  int32_t pid, fd;
  uint64_t bytes;
};
KF_FAKE Result cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  Call call("cuIpcGetMemHandle", kStarted | kContext);
  if (call.refused != 0) return call.refused;
  auto at = books().memory.find(address);
  if (at == books().memory.end()) return kInvalidValue;
  IpcContent content{getpid(), at->second.fd, at->second.bytes};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &content, sizeof content);
  return 0;
}
KF_FAKE Result cuIpcOpenMemHandle_v2(Address* address, IpcHandle handle, uint32_t flags) {
  Call call("cuIpcOpenMemHandle_v2", kStarted | kContext | kUnsafe);
  if (call.refused != 0) return call.refused;
  IpcContent content;
  std::memcpy(&content, &handle, sizeof content);
  std::string path = "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.fd);
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0 || flags != kLazyPeerAccess) return kInvalidValue;
  *address = map_aligned(content.bytes, fd);
  books().imported[*address] = {content.bytes, fd};
  ++state().alive["ipc"];
  return 0;
}
KF_FAKE Result cuIpcCloseMemHandle(Address address) {
  Call call("cuIpcCloseMemHandle", kStarted | kContext);
  auto at = books().imported.find(address);
  if (at == books().imported.end()) {
    state().complain("cuIpcCloseMemHandle of " + hex(address) + ", which is not open");
    return kInvalidValue;
  }
  close_piece(address, at->second);
  books().imported.erase(at);
  --state().alive["ipc"];
  return call.refused;
}
KF_FAKE Result cuMemsetD8Async(Address address, unsigned char value, size_t n, Stream stream) {
  Call call("cuMemsetD8Async", kStarted | kContext, std::to_string(n) + " value=" + std::to_string(value));
  if (call.refused != 0) return call.refused;
  return submit(stream, {"memset " + std::to_string(n), 500, [=] { std::memset(host(address), value, n); }});
}
KF_FAKE Result cuMemcpyAsync(Address to, Address from, size_t bytes, Stream stream) {
  Call call("cuMemcpyAsync", kStarted | kContext, std::to_string(bytes));
  if (call.refused != 0) return call.refused;
  return submit(stream, {"copy " + std::to_string(bytes), 2000, [=] { std::memcpy(host(to), host(from), bytes); }});
}
KF_FAKE Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream stream) {
  Call call("cuMemcpyDtoDAsync_v2", kStarted | kContext, std::to_string(bytes));
  if (call.refused != 0) return call.refused;
  return submit(stream, {"copy " + std::to_string(bytes), 2000, [=] { std::memcpy(host(to), host(from), bytes); }});
}

}  // namespace fake
