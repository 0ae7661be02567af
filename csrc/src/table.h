// table.h: the plan tables, one a device. A table is immutable; publishing swaps one pointer, so a reader sees the old one or the new one whole.
#ifndef KF_TABLE_H_
#define KF_TABLE_H_

#include <cstdint>
#include <span>

struct kfr_plan;

namespace kf {

inline constexpr int32_t kDevicesMax = 64;  // CUDA ordinals 0 to 63

// Throws Error(KFR_BAD_ARGUMENT, KFR_BUSY or KFR_NO_DEVICE). Old tables are kept: a reader may still be inside.
void publish(std::span<kfr_plan* const> plans, int32_t device);

const kfr_plan* lookup(int32_t op, int32_t device, const int64_t* words, uint32_t count) noexcept;
bool has_plans(int32_t op, int32_t device) noexcept;

}  // namespace kf
#endif  // KF_TABLE_H_
