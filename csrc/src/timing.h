// timing.h: the ruler of both sides: plans over rotating slot sets, and a reference kernel that tells a disturbed block.
#ifndef KF_TIMING_H_
#define KF_TIMING_H_

#include <cstdint>

#include "kf_runtime.h"

namespace kf {

int64_t now_ns() noexcept;

struct TimedSets {
  void* const* sets;
  uint32_t nsets, nslots;
};
void time_plan(const kfr_plan& plan, const TimedSets& sets, uint32_t samples, uint32_t inner, bool warm, const kfr_parallel* parallel,
               void* stream, double* out_ns);

void time_reference(const kfr_parallel& parallel, uint32_t samples, double* out_ns);

}  // namespace kf
#endif  // KF_TIMING_H_
