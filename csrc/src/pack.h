// pack.h: opening a pack folder: strict reading, pins, hashes, plans. Nothing outside the folder is opened, whatever pack.json says.
#ifndef KF_PACK_H_
#define KF_PACK_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan.h"

struct kfr_pack {
  std::vector<kfr_plan*> plans;  // approved ones, in the order of pack.json
  ~kfr_pack();                   // deletes the plans that were not published
};

namespace kf {

inline constexpr size_t kPackBytesMax = size_t{16} << 20;  // of pack.json

// pins NULL: not compared. A `digest` among them must be that of pack.json: of a caller who has read it before, and must get no other pack.
// Whatever belongs to another user than this process's or root, or may be written by everybody, is refused.
std::unique_ptr<kfr_pack> open_pack(const std::string& folder, const std::string_view* pins, int32_t device);

// What pack.json says, before any other file is touched.
struct PackPlan {
  json::Value json;
  std::string id;
  bool approved;
  FileRef code, source;
};
std::vector<PackPlan> read_pack(std::string_view text, const std::string_view* pins, int32_t device);

}  // namespace kf
#endif  // KF_PACK_H_
