// words.cc: the table of element types, and the registry of overload names.
#include "words.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "error.h"

namespace kf {
namespace {

constexpr DType kTypes[] = {
    {KFR_BOOL, "bool", 1, 11},  {KFR_U8, "uint8", 1, 0},    {KFR_I8, "int8", 1, 1},     {KFR_I16, "int16", 2, 2},
    {KFR_I32, "int32", 4, 3},   {KFR_I64, "int64", 8, 4},   {KFR_F16, "float16", 2, 5}, {KFR_BF16, "bfloat16", 2, 15},
    {KFR_F32, "float32", 4, 6}, {KFR_F64, "float64", 8, 7},
};

constexpr size_t kNameMax = 128;

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, int32_t> ids;
  std::vector<std::string> names;
};

// Never destroyed: hooks of other threads may still ask while the process ends.
Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

bool overload_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == ':';
}

}  // namespace

const DType* dtype_named(std::string_view name) {
  for (const DType& t : kTypes) {
    if (name == t.name) return &t;
  }
  return nullptr;
}

const DType* dtype_of(int32_t id) {
  for (const DType& t : kTypes) {
    if (id == t.id) return &t;
  }
  return nullptr;
}

std::string dtype_names() {
  std::string out;
  for (const DType& t : kTypes) out += (out.empty() ? "" : ", ") + std::string(t.name);
  return out;
}

int32_t op_id(std::string_view overload) {
  bool good = !overload.empty() && overload.size() <= kNameMax && std::all_of(overload.begin(), overload.end(), overload_char);
  if (!good)
    throw Error(KFR_BAD_ARGUMENT, ticked(overload) + " is no overload name (expected one like `aten::relu_` or `aten::add.Tensor`)");
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::string name(overload);
  if (auto at = r.ids.find(name); at != r.ids.end()) return at->second;
  if (r.names.size() >= KFR_MAX_OPS) {
    throw Error(KFR_BAD_ARGUMENT, "overload " + ticked(overload) + ": all " + std::to_string(KFR_MAX_OPS) + " ids are in use");
  }
  int32_t id = static_cast<int32_t>(r.names.size());
  r.names.push_back(name);
  r.ids.emplace(std::move(name), id);
  return id;
}

std::string op_name(int32_t id) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  return id >= 0 && static_cast<size_t>(id) < r.names.size() ? r.names[static_cast<size_t>(id)] : std::string();
}

}  // namespace kf
