// cuda.cc: the CUDA target: geometry of kernels within the device's limits, the device's facts, and what else a target does.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda_buffer.h"
#include "cuda_device.h"
#include "cuda_program.h"
#include "cuda_timing.h"
#include "error.h"
#include "image.h"
#include "table.h"
#include "target.h"

namespace kf {
namespace cuda {
namespace {

constexpr int64_t kGridXMax = INT32_MAX, kGridMax = 65535, kBlockMax = 1024, kBlockZMax = 64;
constexpr int64_t kClusterMax = 16, kClusterPortable = 8;
constexpr int32_t kLocalMax =
    16 << 10;  // of one thread: the driver sets it aside for every thread that the device can hold, 4 GiB on an H200
constexpr int64_t kSharedPortable = 48 * 1024;  // static and dynamic together; more must be asked for, a kernel

std::string extent(const int64_t* e) { return std::to_string(e[0]) + "x" + std::to_string(e[1]) + "x" + std::to_string(e[2]); }
int64_t volume(const int64_t* e) { return e[0] * e[1] * e[2]; }

// Three expressions, each at least 1, the last with a limit of its own.
void read_three(const json::Node& node, const Names& names, const std::array<int64_t, 3>& most, int64_t* out) {
  std::vector<json::Node> items = node.array(3);
  if (items.size() != 3) node.wrong("three expressions");
  for (size_t i = 0; i < 3; ++i) out[i] = read_expr(items[i], names, 1, most[i]);
}

class CudaCode final : public Code {
 public:
  CudaCode(Device& device, std::string_view image) : device_(device), scope_(device), loaded_(std::make_unique<Loaded>(device, image)) {}
  int32_t threads() const override { return 0; }
  bool typed_args() const override { return true; }

  std::vector<int64_t> read_geometry(const std::string& entry, json::Fields& fields, Names* names) const override {
    KernelHandle kernel = loaded_->kernel(entry);
    std::vector<int64_t> g(kGeometry, 0);
    json::Node block = fields.need("block");
    read_three(block, *names, {kBlockMax, kBlockMax, kBlockZMax}, &g[kBlock]);
    if (volume(&g[kBlock]) > kBlockMax) block.fail(extent(&g[kBlock]) + " is more than " + std::to_string(kBlockMax) + " threads");
    g[kShared] = read_expr(fields.need("smem"), *names, 0, device_.info().smem_optin);
    if (auto cluster = fields.find("cluster")) read_cluster(*cluster, *names, &g[kCluster]);
    if (auto cooperative = fields.find("cooperative")) g[kCoop] = cooperative->boolean();
    allow(fields.node(), kernel, entry, g);
    int32_t blocks = occupancy(kernel, entry, g);
    names->define("max_blocks_per_sm", blocks);
    read_three(fields.need("grid"), *names, {kGridXMax, kGridMax, kGridMax}, &g[kGrid]);
    check_grid(fields.node(), entry, g, blocks);
    return g;
  }

  std::unique_ptr<Program> bind(Spec spec) override { return make_program(device_, std::move(loaded_), spec); }

 private:
  void read_cluster(const json::Node& node, const Names& names, int64_t* out) const {
    read_three(node, names, {kClusterMax, kClusterMax, kClusterMax}, out);
    if (volume(out) > kClusterMax) node.fail(extent(out) + " is more than " + std::to_string(kClusterMax) + " blocks");
    const kfr_device_info& info = device_.info();
    if (info.major >= 9) return;
    throw Error(KFR_LAUNCH, "field `" + node.path() + "`: this device has no clusters (compute capability " + std::to_string(info.major) +
                                "." + std::to_string(info.minor) + ", expected 9.0 or later)");
  }

  // Asks for what a kernel may not have by default. The largest use of a kernel counts: specs may name one twice.
  void allow(const json::Node& node, KernelHandle kernel, const std::string& entry, const std::vector<int64_t>& g) const {
    int32_t fixed = attribute(kernel, kSharedStatic, entry), most = attribute(kernel, kMaxThreads, entry);
    int32_t local = attribute(kernel, kLocal, entry);
    if (local > kLocalMax && !images_unchecked()) {
      throw Error(KFR_BAD_CODE,
                  "check the cubin: kernel " + ticked(entry) + " needs " + std::to_string(local) +
                      " bytes of local memory a thread (expected at most " + std::to_string(kLocalMax) + ")",
                  "arrays whose place in them is known at compile time stay in registers");
    }
    int64_t threads = volume(&g[kBlock]), shared = fixed + g[kShared];
    if (threads > most) {
      throw Error(KFR_LAUNCH, "field `" + node.path() + ".block`: " + std::to_string(threads) + " threads (kernel " + ticked(entry) +
                                  " takes at most " + std::to_string(most) + ": registers or launch bounds)");
    }
    if (shared > device_.info().smem_optin) {
      throw Error(KFR_LAUNCH, "field `" + node.path() + ".smem`: " + std::to_string(g[kShared]) + " bytes and " + std::to_string(fixed) +
                                  " of kernel " + ticked(entry) + " itself (this device has " + std::to_string(device_.info().smem_optin) +
                                  ")");
    }
    int64_t& asked = asked_[kernel];
    if (shared > kSharedPortable && g[kShared] > asked) {
      set(kernel, kMaxDynamicShared, static_cast<int32_t>(g[kShared]), entry);
      asked = g[kShared];
    }
    if (volume(&g[kCluster]) > kClusterPortable) set(kernel, kNonPortableCluster, 1, entry);
  }

  int32_t occupancy(KernelHandle kernel, const std::string& entry, const std::vector<int64_t>& g) const {
    int32_t blocks = 0;
    auto threads = static_cast<int32_t>(volume(&g[kBlock]));
    Result result =
        device_.driver().cuOccupancyMaxActiveBlocks(&blocks, reinterpret_cast<Function>(kernel), threads, static_cast<size_t>(g[kShared]));
    if (result != kSuccess) refuse(result, "ask for the occupancy of kernel " + ticked(entry));
    if (blocks > 0) return blocks;
    throw Error(KFR_LAUNCH, "kernel " + ticked(entry) + ": a block of " + std::to_string(threads) + " threads with " +
                                std::to_string(g[kShared]) + " bytes of dynamic shared memory does not fit a multiprocessor");
  }

  void check_grid(const json::Node& node, const std::string& entry, const std::vector<int64_t>& g, int64_t blocks) const {
    for (size_t i = 0; i < 3 && g[kCluster] != 0; ++i) {
      if (g[kGrid + i] % g[kCluster + i] != 0)
        node.fail("a grid of " + extent(&g[kGrid]) + " is no multiple of the cluster " + extent(&g[kCluster]));
    }
    if (g[kCoop] == 0) return;
    int64_t fits = blocks * device_.info().sm_count, wanted = volume(&g[kGrid]);
    if (wanted > fits) {
      throw Error(KFR_LAUNCH,
                  "kernel " + ticked(entry) + ": a cooperative launch of " + std::to_string(wanted) + " blocks (this device holds " +
                      std::to_string(fits) + " of them at once)",
                  "keep the grid within sm_count * max_blocks_per_sm");
    }
  }

  int32_t attribute(KernelHandle kernel, int32_t which, const std::string& entry) const {
    int32_t value = 0;
    Result result = device_.driver().cuKernelGetAttribute(&value, which, kernel, device_.id());
    if (result != kSuccess) refuse(result, "read attribute " + std::to_string(which) + " of kernel " + ticked(entry));
    return value;
  }
  void set(KernelHandle kernel, int32_t which, int32_t value, const std::string& entry) const {
    Result result = device_.driver().cuKernelSetAttribute(which, value, kernel, device_.id());
    if (result != kSuccess)
      refuse(result, "set attribute " + std::to_string(which) + " of kernel " + ticked(entry) + " to " + std::to_string(value), KFR_LAUNCH);
  }

  Device& device_;
  Scope scope_;  // the plan is made in one thread, and this Code lives no longer
  std::unique_ptr<Loaded> loaded_;
  mutable std::map<KernelHandle, int64_t> asked_;  // dynamic shared memory, above what needs no asking
};

class CudaTarget final : public Target {
 public:
  explicit CudaTarget(int32_t ordinal) : ordinal_(ordinal) {}
  const char* name() const override { return "cuda"; }

  std::unique_ptr<Code> open(std::string_view image, json::Fields&, Names* names) const override {
    Device& device = Device::of(ordinal_);
    auto code = std::make_unique<CudaCode>(device, image);
    names->define("sm_count", device.info().sm_count);
    names->define("l2_bytes", device.info().l2_bytes);
    names->define("smem_optin", device.info().smem_optin);
    return code;
  }
  void describe(kfr_device_info* info) const override {
    Device& device = Device::of(ordinal_);
    *info = device.info();
    SharedMemory shared = device.shared_memory();
    info->vmm = shared.vmm;
    info->read_only = shared.read_only;
    // A thread that has a context keeps it: torch's choice of a device is not ours to change.
    const Driver& d = device.driver();
    Context current = nullptr;
    check(d.cuCtxGetCurrent(&current), "ask for this thread's CUDA context");
    if (current == nullptr) check(d.cuCtxSetCurrent(device.context()), "make the device's CUDA context current");
  }
  void wait(void* stream) const override {
    Device& device = Device::of(ordinal_);
    Scope scope(device);
    check(device.driver().cuStreamSynchronize(static_cast<Stream>(stream)), "wait for a stream");
  }
  std::unique_ptr<kfr_buffer> make_buffer(uint64_t bytes) const override { return cuda::make_buffer(Device::of(ordinal_), bytes); }
  std::unique_ptr<kfr_buffer> import_buffer(int fd, uint64_t bytes, bool writable) const override {
    return cuda::import_buffer(Device::of(ordinal_), fd, bytes, writable);
  }
  void time_reference(const kfr_parallel*, void* stream, uint32_t samples, double* out_ns) const override {
    check_samples("time the reference kernel", samples);
    Device& device = Device::of(ordinal_);
    Scope scope(device);
    Ruler& ruler = device.ruler();
    auto turn = ruler.turn();
    ruler.time_reference(static_cast<Stream>(stream), samples, out_ns);
  }
  void time_graph(void* graph_exec, void* stream, uint32_t samples, double* out_ns) const override {
    Device& device = Device::of(ordinal_);
    Scope scope(device);
    Ruler& ruler = device.ruler();
    auto turn = ruler.turn();
    double unused = 0;
    std::vector<GraphExec> graph{static_cast<GraphExec>(graph_exec)};
    ruler.time(graph, static_cast<Stream>(stream), 1, &unused);
    ruler.time(graph, static_cast<Stream>(stream), samples, out_ns);
  }

 private:
  int32_t ordinal_;
};

template <size_t... I>
std::array<CudaTarget, sizeof...(I)> all_targets(std::index_sequence<I...>) {
  return {CudaTarget(static_cast<int32_t>(I))...};
}

}  // namespace
}  // namespace cuda

const Target& cuda_target(int32_t ordinal) {
  static const auto& targets = *new std::array(cuda::all_targets(std::make_index_sequence<kDevicesMax>()));  // outlives static destruction
  return targets[static_cast<size_t>(ordinal)];
}

}  // namespace kf
