// json.h: strict reading of JSON. A document becomes a tree of Value; Node and Fields walk it and name the path of whatever is wrong.
//
// Refused while parsing: bad UTF-8, duplicate fields, integers outside 64 bits, NUL in strings, nesting over kDepthMax, documents over a limit.
// Refused while reading: unknown fields, missing fields, wrong types, lengths over the reader's limits.
#ifndef KF_JSON_H_
#define KF_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kf_runtime.h"

namespace kf::json {

inline constexpr size_t kDepthMax = 24;

struct Field;
struct Value {
  enum Kind { kNull, kBool, kInt, kFloat, kString, kArray, kObject };
  Kind kind = kNull;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string string;
  std::vector<Value> items;
  std::vector<Field> fields;
};
struct Field {
  std::string name;
  Value value;
};

// Parses one document of at most max_bytes. Throws Error(status) that begins with `what`, such as "read plan".
Value parse(std::string_view text, size_t max_bytes, kfr_status status, const std::string& what);

// Where a reader stands: a value, its path from the root, and the status that errors carry.
class Node {
 public:
  Node(const Value& value, std::string path, kfr_status status) : value_(&value), path_(std::move(path)), status_(status) {}

  const Value& value() const { return *value_; }
  const std::string& path() const { return path_; }
  Node child(const Value& value, const std::string& suffix) const { return Node(value, path_ + suffix, status_); }

  bool boolean() const;
  int64_t integer(int64_t low, int64_t high) const;
  double number() const;  // integer or float
  const std::string& string(size_t max_bytes) const;
  const std::string& one_of(std::initializer_list<std::string_view> words) const;
  std::vector<Node> array(size_t max_items) const;
  std::vector<int64_t> integers(size_t max_items, int64_t low, int64_t high) const;

  // Throws "field `path` is <found> (expected <expected>)".
  [[noreturn]] void wrong(const std::string& expected) const;
  // Throws with free text after the path.
  [[noreturn]] void fail(const std::string& text, const std::string& hint = {}) const;

 private:
  const Value* value_;
  std::string path_;
  kfr_status status_;
};

// The fields of an object. Every field must be taken by name before close(), which refuses the first that was not.
class Fields {
 public:
  explicit Fields(const Node& node);
  Node need(std::string_view name);
  std::optional<Node> find(std::string_view name);
  void close() const;
  const Node& node() const { return node_; }

 private:
  Node node_;
  std::vector<bool> taken_;
};

}  // namespace kf::json
#endif  // KF_JSON_H_
