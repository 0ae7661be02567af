// cuda_timing.cc: capture, replay, and the delay that keeps the host ahead of the device.
//
//   stream:  [delay: 64 small memsets] [start event] [graph] [stop event]
//
// While the device works on the delay, the host queues the rest; so between the two events the device never waits for the host, and what is
// measured is device time, for a plan, for eager and for a whole model alike. The delay writes 4 KiB, which leaves the caches as they are.
#include "cuda_timing.h"

#include <algorithm>
#include <string>

#include "error.h"

namespace kf::cuda {
namespace {

constexpr int kDelayNodes = 64;
constexpr uint64_t kDelayBytes = 4096;
constexpr uint64_t kReferenceBytes = uint64_t{32} << 20;  // with its copy more than any L2 cache, so that memory is measured too
constexpr int kReferenceCopies = 4;

}  // namespace

Replay::Replay(const Device& device, Stream stream, const std::function<void()>& queue) : driver_(device.driver()) {
  check(driver_.cuStreamBeginCapture(stream, kCaptureRelaxed), "begin the capture of a graph");
  Graph graph = nullptr;
  try {
    queue();
  } catch (...) {
    if (driver_.cuStreamEndCapture(stream, &graph) == kSuccess && graph != nullptr) driver_.cuGraphDestroy(graph);
    throw;
  }
  check(driver_.cuStreamEndCapture(stream, &graph), "end the capture of a graph");
  Result result = driver_.cuGraphInstantiate(&exec_, graph, 0);
  driver_.cuGraphDestroy(graph);
  check(result, "instantiate a graph");
  result = driver_.cuGraphUpload(exec_, stream);
  if (result == kSuccess) return;
  driver_.cuGraphExecDestroy(exec_);
  refuse(result, "upload a graph");
}

Replay::~Replay() { driver_.cuGraphExecDestroy(exec_); }

Ruler::Ruler(Device& device) : device_(device) {
  Scope scope(device);
  const Driver& d = device.driver();
  check(d.cuStreamCreate(&stream_, kNonBlocking), "make a stream");
  check(d.cuEventCreate(&start_, 0), "make an event");
  check(d.cuEventCreate(&stop_, 0), "make an event");
  scratch_ = std::make_unique<Scratch>(device, std::vector<uint64_t>{kDelayBytes}, "make a ruler");
  auto at = reinterpret_cast<Address>(scratch_->piece(0));
  delay_ = std::make_unique<Replay>(device, stream_, [&] {
    for (int i = 0; i < kDelayNodes; ++i) check(d.cuMemsetD8Async(at, 0, kDelayBytes, stream_), "capture the delay");
  });
}

double Ruler::sample(GraphExec graph, Stream stream) {
  const Driver& d = device_.driver();
  check(d.cuGraphLaunch(delay_->get(), stream), "replay the delay");
  check(d.cuEventRecord(start_, stream), "record an event");
  check(d.cuGraphLaunch(graph, stream), "replay a graph");
  check(d.cuEventRecord(stop_, stream), "record an event");
  check(d.cuEventSynchronize(stop_), "wait for a graph");
  float milliseconds = 0;
  check(d.cuEventElapsedTime(&milliseconds, start_, stop_), "read the time between two events");
  return static_cast<double>(milliseconds) * 1e6;
}

void Ruler::time(const std::vector<GraphExec>& graphs, Stream stream, uint32_t samples, double* out_ns) {
  if (stream == nullptr) stream = stream_;
  check(device_.driver().cuCtxSynchronize(), "wait for the device");
  for (uint32_t i = 0; i < samples; ++i) out_ns[i] = sample(graphs[i % graphs.size()], stream);
}

void Ruler::time_reference(Stream stream, uint32_t samples, double* out_ns) {
  if (reference_ == nullptr) {
    const Driver& d = device_.driver();
    auto memory = std::make_unique<Scratch>(device_, std::vector<uint64_t>{kReferenceBytes, kReferenceBytes}, "make the reference kernel");
    memory->clear(stream_);
    auto a = reinterpret_cast<Address>(memory->piece(0)), b = reinterpret_cast<Address>(memory->piece(1));
    auto graph = std::make_unique<Replay>(device_, stream_, [&] {
      for (int i = 0; i < kReferenceCopies; ++i) {
        check(d.cuMemcpyDtoDAsync(i % 2 == 0 ? b : a, i % 2 == 0 ? a : b, kReferenceBytes, stream_), "capture the reference kernel");
      }
    });
    reference_memory_ = std::move(memory);
    reference_ = std::move(graph);
  }
  double unused = 0;
  time({reference_->get()}, stream, 1, &unused);
  time({reference_->get()}, stream, samples, out_ns);
}

Rotation::Rotation(Device& device, const Program& program, const Series& series)
    : device_(device), program_(program), nsets_(series.sets.nsets), nslots_(series.sets.nslots), inner_(series.inner) {
  asked_.assign(series.sets.sets, series.sets.sets + size_t{nsets_} * nslots_);
  slots_ = asked_;
  std::vector<Series::Missing> wanted;
  std::vector<uint64_t> bytes;
  for (const Series::Missing& m : series.missing) {
    bool absent = false;
    for (uint32_t set = 0; set < nsets_; ++set) absent = absent || asked_[size_t{set} * nslots_ + m.slot] == nullptr;
    if (!absent) continue;
    wanted.push_back(m);
    bytes.push_back(m.bytes);
  }
  if (wanted.empty()) return;
  memory_ = std::make_unique<Scratch>(device, bytes, "outputs and workspaces");
  for (size_t i = 0; i < wanted.size(); ++i) {
    for (uint32_t set = 0; set < nsets_; ++set) {
      void*& slot = slots_[size_t{set} * nslots_ + wanted[i].slot];
      if (slot == nullptr) slot = memory_->piece(i);
    }
  }
}

bool Rotation::fits(const Series& series) const {
  return series.inner == inner_ && series.sets.nsets == nsets_ && series.sets.nslots == nslots_ &&
         std::equal(asked_.begin(), asked_.end(), series.sets.sets);
}

GraphExec Rotation::from(uint32_t start) {
  std::unique_ptr<Replay>& graph = graphs_[start];
  if (graph == nullptr) {
    Stream stream = device_.ruler().stream();
    graph = std::make_unique<Replay>(device_, stream, [&] {
      for (uint32_t k = 0; k < inner_; ++k) { program_.launch(slots_.data() + size_t{(start + k) % nsets_} * nslots_, nullptr, stream); }
    });
  }
  return graph->get();
}

void Rotation::time(const Series& series, Stream stream, double* out_ns) {
  Ruler& ruler = device_.ruler();
  auto turn = ruler.turn();
  std::vector<GraphExec> order;  // sample i begins where sample i - 1 ended; after nsets samples at the latest that repeats
  for (uint32_t i = 0; i < std::min(series.samples, nsets_); ++i) {
    auto start = static_cast<uint32_t>(uint64_t{i} * inner_ % nsets_);
    if (i > 0 && start == 0) break;
    order.push_back(from(start));
  }
  if (series.warm) {
    Stream on = stream == nullptr ? ruler.stream() : stream;
    for (uint32_t set = 0; set < nsets_; ++set) program_.launch(slots_.data() + size_t{set} * nslots_, nullptr, on);
    check(device_.driver().cuStreamSynchronize(on), "wait for the first launches");
  }
  ruler.time(order, stream, series.samples, out_ns);
  for (uint32_t i = 0; i < series.samples; ++i) out_ns[i] /= inner_;
}

}  // namespace kf::cuda
