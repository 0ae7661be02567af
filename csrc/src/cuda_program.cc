// cuda_program.cc: arguments put in place and kernels queued; nothing is allocated or locked on that path.
#include "cuda_program.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "cuda_timing.h"
#include "error.h"
#include "image.h"

namespace kf::cuda {
namespace {

// One kernel of a plan, ready to launch but for the addresses.
struct Launch {
  struct Parameter {
    int32_t slot;   // -1: a constant
    uint64_t bits;  // of the constant, in its own size, little-endian
  };
  std::string entry;
  KernelHandle kernel;
  LaunchConfig config{};
  LaunchAttribute attributes[2]{};
  std::vector<Parameter> parameters{};
};

std::string extent(const uint32_t* e) { return std::to_string(e[0]) + "x" + std::to_string(e[1]) + "x" + std::to_string(e[2]); }

template <class T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

uint64_t constant_bits(const Arg& arg) {
  if (arg.type == "i32") return bits_of(static_cast<int32_t>(arg.integer));  // its range was checked with the spec
  if (arg.type == "i64") return bits_of(arg.integer);
  if (arg.type == "f32") return bits_of(static_cast<float>(arg.real));
  return bits_of(arg.real);
}

size_t parameter_bytes(const Arg& arg) { return arg.kind != Arg::kSlot && (arg.type == "i32" || arg.type == "f32") ? 4 : 8; }

// A wrong number or size of arguments would have the driver read past ours.
void check_parameters(const Driver& d, KernelHandle kernel, const kf::Kernel& spec) {
  if (d.cuKernelGetParamInfo == nullptr) return;
  std::string where = "kernel " + ticked(spec.entry) + ": ";
  size_t offset = 0, bytes = 0;
  for (size_t i = 0; i < spec.args.size(); ++i) {
    if (d.cuKernelGetParamInfo(kernel, i, &offset, &bytes) != kSuccess)
      throw Error(KFR_BAD_SPEC, where + std::to_string(spec.args.size()) + " args (the kernel takes " + std::to_string(i) + ")");
    if (bytes != parameter_bytes(spec.args[i])) {
      throw Error(KFR_BAD_SPEC,
                  where + "arg " + std::to_string(i) + " has " + std::to_string(parameter_bytes(spec.args[i])) +
                      " bytes (the kernel takes " + std::to_string(bytes) + ")",
                  "slots are pointers; i32 and f32 have 4 bytes, i64 and f64 have 8");
    }
  }
  if (d.cuKernelGetParamInfo(kernel, spec.args.size(), &offset, &bytes) == kSuccess)
    throw Error(KFR_BAD_SPEC, where + std::to_string(spec.args.size()) + " args (the kernel takes more)");
}

Launch make_launch(const Driver& d, KernelHandle kernel, const kf::Kernel& spec) {
  check_parameters(d, kernel, spec);
  Launch launch{spec.entry, kernel};
  const int64_t* g = spec.geometry.data();
  for (int i = 0; i < 3; ++i) launch.config.grid[i] = static_cast<uint32_t>(g[kGrid + i]);
  for (int i = 0; i < 3; ++i) launch.config.block[i] = static_cast<uint32_t>(g[kBlock + i]);
  launch.config.shared_bytes = static_cast<uint32_t>(g[kShared]);
  uint32_t& count = launch.config.attribute_count;
  if (g[kCluster] != 0) {
    LaunchAttribute& a = launch.attributes[count++];
    a.id = kClusterDims;
    for (int i = 0; i < 3; ++i) a.value.cluster[i] = static_cast<uint32_t>(g[kCluster + i]);
  }
  if (g[kCoop] != 0) {
    LaunchAttribute& a = launch.attributes[count++];
    a.id = kCooperative;
    a.value.cooperative = 1;
  }
  for (const Arg& arg : spec.args)
    launch.parameters.push_back(arg.kind == Arg::kSlot ? Launch::Parameter{static_cast<int32_t>(arg.slot), 0}
                                                       : Launch::Parameter{-1, constant_bits(arg)});
  return launch;
}

// Clusters need room for all their blocks at once, which the occupancy of one block does not tell.
void check_cluster(const Driver& d, Launch& launch) {
  LaunchConfig config = launch.config;
  config.attributes = launch.attributes;
  int32_t clusters = 0;
  Result result = d.cuOccupancyMaxActiveClusters(&clusters, reinterpret_cast<Function>(launch.kernel), &config);
  std::string what = "kernel " + ticked(launch.entry) + ": clusters of " + extent(launch.attributes[0].value.cluster) + " blocks";
  if (result != kSuccess) refuse(result, what, KFR_LAUNCH);
  if (clusters == 0) throw Error(KFR_LAUNCH, what + " of " + extent(config.block) + " threads do not fit this device");
}

std::string where(const Device& device) {
  const kfr_device_info& info = device.info();
  return std::string(" on ") + info.name + ", compute capability " + std::to_string(info.major) + "." + std::to_string(info.minor);
}

class CudaProgram final : public Program {
 public:
  CudaProgram(Device& device, std::unique_ptr<Loaded> loaded, const Spec& spec) : device_(device), loaded_(std::move(loaded)) {
    std::vector<std::string> entries;
    for (const kf::Kernel& kernel : spec.kernels) entries.push_back(kernel.entry);
    if (!images_unchecked()) loaded_->cubin().need_only(entries);
    for (const kf::Kernel& kernel : spec.kernels) {
      launches_.push_back(make_launch(device.driver(), loaded_->kernel(kernel.entry), kernel));
      if (kernel.geometry[kCluster] != 0) check_cluster(device.driver(), launches_.back());
      for (const Arg& arg : kernel.args) {
        if (arg.kind == Arg::kSlot) used_.push_back(arg.slot);
      }
    }
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    for (uint32_t i = 0; i < spec.workspaces.size(); ++i) {
      uint32_t slot = spec.inputs + spec.outputs + i;
      bool used = std::binary_search(used_.begin(), used_.end(), slot);
      if (spec.workspaces[i].zeroed && used) zeroed_.push_back({slot, spec.workspaces[i].bytes});
    }
  }
  ~CudaProgram() override {
    try {
      Scope scope(device_);
      rotation_.reset();
      loaded_.reset();
    } catch (const Error&) {}  // the context is lost
  }

  void launch(void* const* slots, const kfr_parallel*, void* stream) const override {
    for (uint32_t slot : used_) {
      if (slots[slot] == nullptr) throw Error(KFR_BAD_ARGUMENT, "slot " + std::to_string(slot) + " is NULL");
    }
    size_t done = 0;
    Result result = queue(slots, static_cast<Stream>(stream), &done);
    if (result == kInvalidContext && done == 0) {  // a thread that never used CUDA has no context yet
      result = device_.driver().cuCtxSetCurrent(device_.context());
      if (result == kSuccess) result = queue(slots, static_cast<Stream>(stream), &done);
    }
    if (result != kSuccess) fail(result, done);
  }

  void warm(const std::vector<uint64_t>& slot_bytes) const override {
    Scope scope(device_);
    Ruler& ruler = device_.ruler();
    auto turn = ruler.turn();  // or this launch could land in a graph that another thread captures on that stream
    Stream stream = ruler.stream();
    Scratch scratch(device_, slot_bytes, "launch once on scratch memory");
    scratch.clear(stream);
    std::vector<void*> slots;
    for (size_t i = 0; i < slot_bytes.size(); ++i) slots.push_back(scratch.piece(i));
    launch(slots.data(), nullptr, stream);
    check(device_.driver().cuStreamSynchronize(stream), "launch once on scratch memory");
  }

  void time(const Series& series, const kfr_parallel*, void* stream, double* out_ns) const override {
    std::lock_guard lock(timing_);
    Scope scope(device_);
    if (rotation_ == nullptr || !rotation_->fits(series)) {
      rotation_.reset();  // its memory first
      rotation_ = std::make_unique<Rotation>(device_, *this, series);
    }
    rotation_->time(series, static_cast<Stream>(stream), out_ns);
  }

 private:
  struct Zeroed {
    uint32_t slot;
    uint64_t bytes;
  };

  // done: how many calls the driver took before the one that it refused.
  Result queue(void* const* slots, Stream stream, size_t* done) const {
    const Driver& d = device_.driver();
    for (const Zeroed& z : zeroed_) {
      Result result = d.cuMemsetD8Async(reinterpret_cast<Address>(slots[z.slot]), 0, z.bytes, stream);
      if (result != kSuccess) return result;
      ++*done;
    }
    for (const Launch& launch : launches_) {
      uint64_t values[kKernelArgsMax];
      void* parameters[kKernelArgsMax];
      for (size_t i = 0; i < launch.parameters.size(); ++i) {
        const Launch::Parameter& p = launch.parameters[i];
        values[i] = p.slot < 0 ? p.bits : reinterpret_cast<uint64_t>(slots[p.slot]);
        parameters[i] = &values[i];
      }
      LaunchConfig config = launch.config;
      config.stream = stream;
      config.attributes = config.attribute_count == 0 ? nullptr : const_cast<LaunchAttribute*>(launch.attributes);
      Result result = d.cuLaunchKernelEx(&config, reinterpret_cast<Function>(launch.kernel), parameters, nullptr);
      if (result != kSuccess) return result;
      ++*done;
    }
    return kSuccess;
  }

  [[noreturn]] void fail(Result result, size_t done) const {
    if (done < zeroed_.size()) refuse(result, "clear a workspace of " + std::to_string(zeroed_[done].bytes) + " bytes");
    const Launch& launch = launches_[done - zeroed_.size()];
    const LaunchConfig& c = launch.config;
    std::string what = "kernel " + ticked(launch.entry) + ": " + extent(c.grid) + " blocks of " + extent(c.block) + " threads with " +
                       std::to_string(c.shared_bytes) + " bytes of dynamic shared memory";
    if (done == zeroed_.size()) refuse(result, what, KFR_LAUNCH);  // which promises that no kernel ran
    // A kernel before this one is queued, whatever the reason of the driver: eager must not go on from tensors that it writes. After a fault nothing
    // goes on.
    try {
      refuse(result, what);
    } catch (const Error& e) {
      if (e.status() == KFR_FAULT) throw;
      throw Error(KFR_DRIVER, e.text(), e.hint());
    }
  }

  Device& device_;
  std::unique_ptr<Loaded> loaded_;
  std::vector<Launch> launches_;
  std::vector<uint32_t> used_;  // slots that kernels get
  std::vector<Zeroed> zeroed_;
  mutable std::mutex timing_;
  mutable std::unique_ptr<Rotation> rotation_;  // guarded by timing_; graphs of the last series
};

}  // namespace

Loaded::Loaded(Device& device, std::string_view image) : device_(device), cubin_(image) {
  Result result = device.driver().cuLibraryLoadData(&library_, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != kSuccess) refuse(result, "load the cubin" + where(device), KFR_BAD_CODE);
}

Loaded::~Loaded() { device_.driver().cuLibraryUnload(library_); }

KernelHandle Loaded::kernel(const std::string& entry) {
  if (auto known = kernels_.find(entry); known != kernels_.end()) return known->second;
  cubin_.need(entry);
  const Driver& d = device_.driver();
  KernelHandle kernel = nullptr;
  Function function = nullptr;
  Result result = d.cuLibraryGetKernel(&kernel, library_, entry.c_str());
  if (result == kSuccess) result = d.cuKernelGetFunction(&function, kernel);
  if (result != kSuccess) refuse(result, "load kernel " + ticked(entry) + where(device_), KFR_BAD_CODE);
  return kernels_[entry] = kernel;
}

std::unique_ptr<Program> make_program(Device& device, std::unique_ptr<Loaded> loaded, const Spec& spec) {
  return std::make_unique<CudaProgram>(device, std::move(loaded), spec);
}

}  // namespace kf::cuda
