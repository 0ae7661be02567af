// plan.cc: a plan from its JSON: call, facts, launch spec, then the code.
#include "plan.h"

#include <algorithm>

#include "error.h"
#include "image.h"
#include "kf_call.h"
#include "sha256.h"
#include "words.h"

namespace kf {
namespace {

constexpr int64_t kAlignMax = 4096;

std::vector<uint32_t> read_align(const json::Node& node, size_t slots) {
  std::vector<uint32_t> align;
  for (const json::Node& item : node.array(kSlotsMax)) {
    int64_t v = item.integer(1, kAlignMax);
    if (v & (v - 1)) item.wrong("a power of two");
    align.push_back(static_cast<uint32_t>(v));
  }
  if (align.size() != slots) node.wrong("one number for each of " + std::to_string(slots) + " input and output slots");
  return align;
}

// Fields that a pack carries for people and tools; checked for their type, unused here.
void read_origin(json::Fields& fields) {
  if (auto node = fields.find("card")) read_id(*node);
  if (auto node = fields.find("variant")) read_id(*node);
  if (auto node = fields.find("node")) node->integer(0, INT64_MAX);
  if (auto node = fields.find("state")) node->one_of({"proposed", "approved"});
  if (auto node = fields.find("approved_by")) node->string(256);
  if (auto node = fields.find("source")) read_file_ref(*node, INT64_MAX);
  if (auto node = fields.find("evidence"); node && node->value().kind != json::Value::kObject) node->wrong("an object");
}

void check_code(const json::Node& node, std::string_view image) {
  FileRef code = read_file_ref(node, static_cast<int64_t>(kImageBytesMax));
  if (static_cast<size_t>(code.bytes) == image.size() && code.sha256 == sha256_hex(image)) return;
  throw Error(KFR_BAD_CODE, "field `" + node.path() + "`: the image has another hash or size");
}

}  // namespace

const std::string& read_id(const json::Node& node) {
  const std::string& id = node.string(96);
  bool good = !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
  if (!good) node.wrong("an id of letters, digits, `.`, `_` and `-`");
  return id;
}

FileRef read_file_ref(const json::Node& node, int64_t max_bytes) {
  json::Fields fields(node);
  json::Node hash = fields.need("sha256");
  FileRef ref{hash.string(64), fields.need("bytes").integer(1, max_bytes)};
  fields.close();
  bool good = ref.sha256.size() == 64 &&
              std::all_of(ref.sha256.begin(), ref.sha256.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!good) hash.wrong("64 hexadecimal digits in lower case");
  return ref;
}

std::unique_ptr<kfr_plan> make_plan(const json::Node& node, std::string_view image, int32_t device) {
  const Target& target = target_of(device);
  json::Fields fields(node);
  auto plan = std::make_unique<kfr_plan>();
  plan->id = read_id(fields.need("id"));
  Call call = read_call(fields.need("call"));
  if (auto recorded = fields.find("code")) check_code(*recorded, image);
  std::unique_ptr<Code> code = target.open(image, fields, &call.names);
  plan->threads = code->threads();
  Spec spec = read_spec(fields.need("spec"), call, call.names, *code);
  plan->align = read_align(fields.need("align"), call.inputs.size() + call.outputs.size());
  plan->deterministic = fields.need("deterministic").boolean();
  plan->exact = fields.need("exact").boolean();
  read_origin(fields);
  fields.close();

  plan->overload = call.overload;
  plan->device = device;
  plan->words = std::move(call.words);
  plan->hash = CallWords::hash(plan->words.data(), static_cast<uint32_t>(plan->words.size()));
  plan->inputs = std::move(call.inputs);
  plan->outputs = std::move(call.outputs);
  for (const Workspace& w : spec.workspaces) {
    plan->workspace_bytes.push_back(w.bytes);
    plan->workspace_zeroed.push_back(w.zeroed);
  }
  plan->program = code->bind(std::move(spec));
  plan->op = op_id(call.overload);  // last: ids are for life, and a plan that fails must not use one up
  return plan;
}

}  // namespace kf
