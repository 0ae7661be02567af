// cuda_timing.h: the ruler of CUDA devices: graphs replayed between events, so that the host's own time is never in a sample.
#ifndef KF_CUDA_TIMING_H_
#define KF_CUDA_TIMING_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_device.h"
#include "target.h"

namespace kf::cuda {

// An executable graph of what a function queued on a stream.
class Replay {
 public:
  Replay(const Device& device, Stream stream, const std::function<void()>& queue);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  GraphExec get() const { return exec_; }

 private:
  const Driver& driver_;
  GraphExec exec_ = nullptr;
};

// One a device (Device::ruler). One measurement at a time: who uses it holds its turn, inside a Scope.
class Ruler {
 public:
  explicit Ruler(Device& device);
  std::unique_lock<std::mutex> turn() { return std::unique_lock(mutex_); }

  // Times one replay of graphs[i % n] for each sample i. stream NULL: the ruler's own. Waits for all work of the device first.
  void time(const std::vector<GraphExec>& graphs, Stream stream, uint32_t samples, double* out_ns);
  void time_reference(Stream stream, uint32_t samples, double* out_ns);
  Stream stream() const { return stream_; }  // does not wait for the legacy stream, nor that for it

 private:
  double sample(GraphExec graph, Stream stream);

  Device& device_;
  std::mutex mutex_;
  Stream stream_ = nullptr;
  Event start_ = nullptr, stop_ = nullptr;
  std::unique_ptr<Scratch> scratch_, reference_memory_;
  std::unique_ptr<Replay> delay_, reference_;
};

// A plan's launches over rotating sets, captured: the graph that begins at set k launches k, k + 1, ... round robin, `inner` of them.
class Rotation {
 public:
  Rotation(Device& device, const Program& program, const Series& series);
  bool fits(const Series& series) const;  // same addresses, same inner
  void time(const Series& series, Stream stream, double* out_ns);

 private:
  GraphExec from(uint32_t start);

  Device& device_;
  const Program& program_;
  uint32_t nsets_, nslots_, inner_;
  std::vector<void*> asked_, slots_;  // as given; and with memory where none was given
  std::unique_ptr<Scratch> memory_;
  std::map<uint32_t, std::unique_ptr<Replay>> graphs_;
};

}  // namespace kf::cuda
#endif  // KF_CUDA_TIMING_H_
