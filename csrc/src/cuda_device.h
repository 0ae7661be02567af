// cuda_device.h: an opened CUDA device: its primary context, its facts, and plain memory of it.
#ifndef KF_CUDA_DEVICE_H_
#define KF_CUDA_DEVICE_H_

#include <mutex>
#include <optional>
#include <vector>

#include "cuda_driver.h"

namespace kf::cuda {

// Which kind of shared memory the driver grants here; found out by trying, since containers and virtual machines differ.
struct SharedMemory {
  bool vmm;        // virtual memory that can be exported as a file descriptor
  bool read_only;  // and mapped so that kernels cannot write it
};

class Ruler;

// One a device, never destroyed: contexts outlive static destruction, and other threads may still launch while the process ends.
class Device {
 public:
  // Opens the driver and retains the device's primary context, the one that torch uses. Throws Error; a later call tries again.
  static Device& of(int32_t ordinal);

  const Driver& driver() const { return driver_; }
  int32_t ordinal() const { return ordinal_; }
  DeviceId id() const { return id_; }
  Context context() const { return context_; }
  const kfr_device_info& info() const { return info_; }  // without `vmm` and `read_only`
  SharedMemory shared_memory();                          // tried at the first call
  Ruler& ruler();                                        // made at the first call

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

 private:
  explicit Device(int32_t ordinal);
  int32_t attribute(int32_t which) const;

  const Driver& driver_;
  int32_t ordinal_;
  DeviceId id_ = 0;
  Context context_ = nullptr;
  kfr_device_info info_{};
  std::mutex mutex_;
  std::optional<SharedMemory> shared_;  // guarded by mutex_
  Ruler* ruler_ = nullptr;              // guarded by mutex_; never freed
};

// While it lives, the device's context is current in this thread, and calls that a stream capture of any thread would forbid (allocation, loading,
// synchronizing) are allowed: what they touch is the runtime's own. A launch needs neither.
class Scope {
 public:
  explicit Scope(const Device& device);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Device& device_;
  bool pushed_ = false;
  int32_t mode_ = kCaptureRelaxed;
};

// Several pieces of device memory in one allocation, each aligned for every plan; gone with this object. Made and freed inside a Scope.
class Scratch {
 public:
  Scratch(const Device& device, const std::vector<uint64_t>& bytes, const char* what);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* piece(size_t index) const { return reinterpret_cast<void*>(pieces_[index]); }
  void clear(Stream stream) const;  // queues

 private:
  const Device& device_;
  Address base_ = 0;
  uint64_t total_ = 0;
  std::vector<Address> pieces_;
};

}  // namespace kf::cuda
#endif  // KF_CUDA_DEVICE_H_
