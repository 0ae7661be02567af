// Calls through the real dispatcher from C++, and their times; nothing here needs Python or the GIL.
//
// On the host a call's time is read from kfr_now_ns around it. On CUDA a call returns before its work is done, so that clock says nothing about it: there
// calls are captured into a graph (run_calls under torch.cuda.graph) and its replays timed by events (graph_time), and host_cost tells what a call
// costs the host.
#ifndef KFT_TIMING_H_
#define KFT_TIMING_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

#include "kf_runtime.h"

namespace kft {

using Stack = std::vector<c10::IValue>;

// `samples` values: nanoseconds a call, each the mean of `inner` calls in a row over the sets, round robin.
// warm: one untimed pass over the sets first (a slow operator that was just timed needs none).
// plans false: hooks of this thread redispatch at once. The cost of boxing (about 0.1 us) is in both. Host tensors only.
std::vector<double> time_calls(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t samples, uint32_t inner, bool plans,
                               bool warm);

struct BlockPlan {
  uint32_t blocks, inner;
  bool control;      // also time eager a second time in each block, as if it were a candidate
  uint32_t padding;  // calls that a sample of eager makes and does not count: eager made slower by a known share, to try a rule out
};
struct Blocks {
  std::vector<double> eager_ns, again_ns, ours_ns;  // one a block; again_ns is empty without a control
};
// Blocks of one sample for each side, in an order drawn anew for every block, so that drift hits all alike. Host tensors only.
Blocks time_blocks(const c10::OperatorHandle& op, const std::vector<Stack>& sets, const BlockPlan& plan, uint64_t seed);

// As time_calls, on any device: nanoseconds that a call keeps the calling thread. The device is waited for before each sample, untimed, and a sample
// is short enough (kMaxBurst calls) that its queue never fills, so a call never waits for room.
inline constexpr uint32_t kMaxBurst = 256;
std::vector<double> host_cost(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t samples, uint32_t inner, bool plans,
                              bool warm);

struct HookCost {
  std::vector<double> bare_ns, hooked_ns;  // one a block
};
// As host_cost, in blocks of one sample of each in an order drawn anew: through the dispatcher, and as if the operator had no hook (redispatched below
// the hooks' key, with the same work done to find that key). Neighbours in time, so what else the machine does hits both. Under inference_mode only.
HookCost hook_cost(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t blocks, uint32_t inner, uint64_t seed);

// Calls the operator n times over the sets, round robin, on the current stream; each result is freed at once, so that the next call is given its memory
// again, as in a model. For use while the current stream captures.
void run_calls(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t n, bool plans);

// Nanoseconds of `samples` replays of a graph (a CUgraphExec of the device), after the work that its current stream has now.
std::vector<double> graph_time(int32_t device, void* graph_exec, void* stream, uint32_t samples);

// The reference kernel of both processes: with torch's threads on the host, on the current stream of a device.
std::vector<double> time_reference(uint32_t samples, int32_t device = KFR_HOST);

}  // namespace kft
#endif  // KFT_TIMING_H_
