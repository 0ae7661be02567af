// cuda_device.cc: opening devices, the scope of calls, scratch memory.
#include "cuda_device.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "cuda_buffer.h"
#include "cuda_timing.h"
#include "error.h"
#include "table.h"

namespace kf::cuda {
namespace {

constexpr uint64_t kPieceAlign = 4096;  // the largest alignment that a plan can ask for

std::string named(int32_t ordinal) { return "open CUDA device " + std::to_string(ordinal); }

}  // namespace

Device& Device::of(int32_t ordinal) {
  static std::mutex& mutex = *new std::mutex;
  static auto& devices = *new std::array<Device*, kDevicesMax>{};
  if (ordinal < 0 || ordinal >= kDevicesMax) throw Error(KFR_NO_DEVICE, named(ordinal) + ": no such ordinal");
  std::lock_guard lock(mutex);
  Device*& device = devices[static_cast<size_t>(ordinal)];
  if (device == nullptr) device = new Device(ordinal);
  return *device;
}

Device::Device(int32_t ordinal) : driver_(cuda::driver()), ordinal_(ordinal) {
  const std::string what = named(ordinal);
  auto need = [&](Result result) {
    if (result != kSuccess) refuse(result, what);
  };
  int32_t count = 0;
  need(driver_.cuDeviceGetCount(&count));
  if (ordinal >= count) {
    throw Error(KFR_NO_DEVICE, what + ": no such ordinal (this process sees " + std::to_string(count) + ")",
                "ordinals count the devices that CUDA_VISIBLE_DEVICES leaves");
  }
  need(driver_.cuDeviceGet(&id_, ordinal));
  need(driver_.cuDevicePrimaryCtxRetain(&context_, id_));
  size_t memory = 0;
  Uuid uuid{};
  need(driver_.cuDeviceGetName(info_.name, sizeof info_.name, id_));
  need(driver_.cuDeviceGetPCIBusId(info_.pci, sizeof info_.pci, id_));
  need(driver_.cuDeviceGetUuid(&uuid, id_));
  need(driver_.cuDeviceTotalMem(&memory, id_));
  std::memcpy(info_.uuid, uuid.bytes, sizeof info_.uuid);
  info_.memory_bytes = static_cast<int64_t>(memory);
  info_.driver = driver_.version;
  info_.major = attribute(kCapabilityMajor);
  info_.minor = attribute(kCapabilityMinor);
  info_.sm_count = attribute(kSmCount);
  info_.warp = attribute(kWarpSize);
  info_.l2_bytes = attribute(kL2CacheSize);
  info_.smem_optin = attribute(kSharedOptin);
}

int32_t Device::attribute(int32_t which) const {
  int32_t value = 0;
  Result result = driver_.cuDeviceGetAttribute(&value, which, id_);
  if (result != kSuccess) refuse(result, named(ordinal_) + ": read attribute " + std::to_string(which));
  return value;
}

SharedMemory Device::shared_memory() {
  std::lock_guard lock(mutex_);
  if (!shared_) {
    bool listed = attribute(kVirtualMemory) != 0 && attribute(kPosixDescriptors) != 0;
    shared_ = listed ? try_virtual_memory(*this) : SharedMemory{false, false};
  }
  return *shared_;
}

Ruler& Device::ruler() {
  std::lock_guard lock(mutex_);
  if (ruler_ == nullptr) ruler_ = std::make_unique<Ruler>(*this).release();
  return *ruler_;
}

Scope::Scope(const Device& device) : device_(device) {
  const Driver& d = device.driver();
  Context current = nullptr;
  // What was there goes on afterwards: torch keeps its own device current.
  check(d.cuCtxGetCurrent(&current), "ask for this thread's CUDA context");
  if (current != device.context()) {
    check(d.cuCtxPushCurrent(device.context()), "make the device's CUDA context current");
    pushed_ = true;
  }
  if (d.cuThreadExchangeStreamCaptureMode(&mode_) != kSuccess) mode_ = -1;
}

Scope::~Scope() {
  const Driver& d = device_.driver();
  if (mode_ >= 0) d.cuThreadExchangeStreamCaptureMode(&mode_);
  Context popped = nullptr;
  if (pushed_) d.cuCtxPopCurrent(&popped);
}

Scratch::Scratch(const Device& device, const std::vector<uint64_t>& bytes, const char* what) : device_(device) {
  for (uint64_t n : bytes) {
    pieces_.push_back(total_);
    total_ += (n + kPieceAlign - 1) / kPieceAlign * kPieceAlign;
  }
  if (total_ == 0) total_ = kPieceAlign;  // only empty pieces: an address is still due
  Result result = device_.driver().cuMemAlloc(&base_, total_ + kPieceAlign);
  if (result != kSuccess) refuse(result, std::string(what) + ": allocate " + std::to_string(total_) + " bytes");
  Address first = (base_ + kPieceAlign - 1) / kPieceAlign * kPieceAlign;
  for (Address& piece : pieces_) piece += first;
}

Scratch::~Scratch() { device_.driver().cuMemFree(base_); }  // waits until the device is idle

void Scratch::clear(Stream stream) const {
  check(device_.driver().cuMemsetD8Async(base_, 0, total_ + kPieceAlign, stream), "clear scratch memory");
}

}  // namespace kf::cuda
