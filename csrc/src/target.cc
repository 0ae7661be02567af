// target.cc: which target serves a device ordinal.
#include "target.h"

#include "error.h"
#include "table.h"

namespace kf {

const Target& target_of(int32_t device) {
  if (device == KFR_HOST) return host_target();
  if (device >= 0 && device < kDevicesMax) return cuda_target(device);
  throw Error(KFR_NO_DEVICE, "device " + std::to_string(device) + ": no such ordinal (expected -1 for the host, or 0, 1, ... for CUDA)");
}

}  // namespace kf
