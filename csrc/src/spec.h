// spec.h: a launch spec bound to one call: names resolved to slots, expressions evaluated, everything within limits (docs/formats.md, `spec`).
#ifndef KF_SPEC_H_
#define KF_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "call.h"
#include "json.h"

namespace kf {

class Code;

struct Workspace {
  uint64_t bytes;
  bool zeroed;
};

struct Arg {
  enum Kind : uint8_t { kSlot, kInt, kFloat };
  Kind kind = kInt;
  uint32_t slot = 0;  // kSlot: an aliased output is its input's slot, so each address is read from one place
  int64_t integer = 0;
  double real = 0;
  std::string type;  // CUDA: "i32" or "i64" (kInt), "f32" or "f64" (kFloat); host, and slots: empty
};

struct Kernel {
  std::string entry;
  std::vector<int64_t> geometry;  // the target's own, such as work and grain
  std::vector<Arg> args;
};

struct Spec {
  uint32_t inputs = 0, outputs = 0;
  std::vector<Workspace> workspaces;
  std::vector<Kernel> kernels;
  uint32_t slots() const { return inputs + outputs + static_cast<uint32_t>(workspaces.size()); }
};

inline constexpr size_t kKernelsMax = 16, kKernelArgsMax = 256, kWorkspacesMax = 16, kConstantsMax = 64;
inline constexpr int64_t kWorkspaceBytesMax = int64_t{1} << 40;

// names: the call's and the device's.
Spec read_spec(const json::Node& node, const Call& call, const Names& names, const Code& code);

// Evaluates a string field as an expression and holds it to a range.
int64_t read_expr(const json::Node& node, const Names& names, int64_t low, int64_t high);

}  // namespace kf
#endif  // KF_SPEC_H_
