// plan.h: the plan behind the handle of kf_runtime.h: guard words, what the caller must know, and the loaded program.
#ifndef KF_PLAN_H_
#define KF_PLAN_H_

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "call.h"
#include "json.h"
#include "target.h"

// Immutable once made, but for the counter and the mark of publication.
struct kfr_plan {
  std::string id, overload;
  int32_t op = -1;
  int32_t device = KFR_HOST;
  int32_t threads = 0;  // host: what it was judged with
  std::vector<int64_t> words;
  uint64_t hash = 0;
  std::vector<kf::Tensor> inputs, outputs;
  std::vector<uint32_t> align;  // inputs, then outputs
  std::vector<uint64_t> workspace_bytes;
  std::vector<uint8_t> workspace_zeroed;
  bool deterministic = false, exact = false;
  std::unique_ptr<kf::Program> program;

  uint32_t slots() const { return static_cast<uint32_t>(align.size() + workspace_bytes.size()); }

  mutable std::atomic<bool> published{false};
  alignas(64) mutable std::atomic<uint64_t> hits{0};  // on its own cache line: every served call writes it
  alignas(64) mutable std::array<std::atomic<uint64_t>, KFR_MAX_REASONS> fallbacks{};
};

namespace kf {

// Makes a plan from its JSON and its code image. Fields that only packs need may be missing; `code`, if there, must fit the image.
std::unique_ptr<kfr_plan> make_plan(const json::Node& node, std::string_view image, int32_t device);

inline constexpr size_t kPlanBytesMax = size_t{1} << 20;  // of JSON

// `sha256` and `bytes` of a file of a pack.
struct FileRef {
  std::string sha256;
  int64_t bytes;
};
FileRef read_file_ref(const json::Node& node, int64_t max_bytes);

// `p-77aa01bc`: letters, digits, `.`, `_` and `-`.
const std::string& read_id(const json::Node& node);

}  // namespace kf
#endif  // KF_PLAN_H_
