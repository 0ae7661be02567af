// Runs the plan whose guard is exactly a call, or says why eager must run it. Torch's types stop at Call; from there on this is not a template.
#ifndef KFT_SERVE_H_
#define KFT_SERVE_H_

#include <ATen/core/Tensor.h>

#include "call.h"
#include "kf_runtime.h"

namespace kft {

inline constexpr uint32_t kMaxOutputs = 8;

struct Served {
  Reason reason = Reason::kServed;
  const kfr_plan* plan = nullptr;  // set when reason is kServed
};

// fresh    `outputs` undefined tensors to be allocated, for a functional form; or nullptr.
// written  `outputs` tensors that the call writes, for an in-place or out form; or nullptr.
// Allocates outputs and workspaces, nothing else; takes no lock. A failure leaves all arguments as they were.
Served serve(const OpEntry& entry, Call& call, at::Tensor* fresh, const at::Tensor* const* written, uint32_t outputs);

// at::parallel_for behind the runtime's callback, with torch's current number of threads.
kfr_parallel torch_parallel();

}  // namespace kft
#endif  // KFT_SERVE_H_
