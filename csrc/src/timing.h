// timing.h: the ruler of both sides: plans over rotating slot sets, and a reference kernel that tells a disturbed block.
#ifndef KF_TIMING_H_
#define KF_TIMING_H_

#include <cstdint>
#include <vector>

#include "kf_runtime.h"

namespace kf {

class Program;

int64_t now_ns() noexcept;

struct TimedSets {
  void* const* sets;
  uint32_t nsets, nslots;
  void* const* set(uint32_t index) const { return sets + size_t{index} * nslots; }
};

// What was asked of kfr_time_plan, checked: every count in its range, no input NULL.
struct Series {
  struct Missing {  // a slot that somebody must provide memory for, where it is NULL in a set
    uint32_t slot;
    uint64_t bytes;
  };
  TimedSets sets;
  uint32_t samples, inner;
  bool warm;
  std::vector<Missing> missing;  // outputs and workspaces that may be NULL, all of them
};

// Checks, then has the plan's program time itself (target.h).
void time_plan(const kfr_plan& plan, const TimedSets& sets, uint32_t samples, uint32_t inner, bool warm, const kfr_parallel* parallel,
               void* stream, double* out_ns);

// The host's way: the monotonic clock around `inner` launches in a row.
void time_on_host(const Program& program, const Series& series, const kfr_parallel* parallel, double* out_ns);
void time_host_reference(const kfr_parallel* parallel, uint32_t samples, double* out_ns);

// Throws Error(KFR_BAD_ARGUMENT) for a number of samples that cannot be; `what` is being timed.
void check_samples(const char* what, uint32_t samples);

}  // namespace kf
#endif  // KF_TIMING_H_
