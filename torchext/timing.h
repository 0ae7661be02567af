// Calls through the real dispatcher from C++, and their times. The ruler is kfr_now_ns on both sides; nothing here needs Python or the GIL.
#ifndef KFT_TIMING_H_
#define KFT_TIMING_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

namespace kft {

using Stack = std::vector<c10::IValue>;

// `samples` values: nanoseconds a call, each the mean of `inner` calls in a row over the sets, round robin.
// warm: one untimed pass over the sets first (a slow operator that was just timed needs none).
// plans false: hooks of this thread redispatch at once. The cost of boxing (about 0.1 us) is in both.
std::vector<double> time_calls(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t samples, uint32_t inner, bool plans,
                               bool warm);

struct Pairs {
  std::vector<double> eager_ns, ours_ns;  // one a block
};
// Blocks of one eager and one served sample each, in an order drawn anew for every block, so that drift hits both alike.
Pairs time_pairs(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t blocks, uint32_t inner, uint64_t seed);

// The reference kernel of both processes, with torch's threads.
std::vector<double> time_reference(uint32_t samples);

}  // namespace kft
#endif  // KFT_TIMING_H_
