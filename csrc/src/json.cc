// json.cc: the only file that sees nlohmann/json: its SAX parser fills our Value, so that limits hold before anything is allocated.
#include "json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "error.h"

namespace kf::json {
namespace {

// Builds the tree. Returns false to stop; `why` then says the reason.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Value root;
  std::string why;

  bool null() override { return put(Value{}) != nullptr; }
  bool boolean(bool v) override {
    Value x;
    x.kind = Value::kBool;
    x.boolean = v;
    return put(std::move(x)) != nullptr;
  }
  bool number_integer(int64_t v) override {
    Value x;
    x.kind = Value::kInt;
    x.integer = v;
    return put(std::move(x)) != nullptr;
  }
  bool number_unsigned(uint64_t v) override {
    if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return stop("an integer outside 64 bits");
    return number_integer(static_cast<int64_t>(v));
  }
  bool number_float(double v, const std::string& text) override {
    if (!std::isfinite(v)) return stop("a number outside the range of a double");
    if (text.find_first_of(".eE") == std::string::npos) return stop("an integer outside 64 bits");
    Value x;
    x.kind = Value::kFloat;
    x.real = v;
    return put(std::move(x)) != nullptr;
  }
  bool string(std::string& v) override {
    if (v.find('\0') != std::string::npos) return stop("a NUL character in a string");
    Value x;
    x.kind = Value::kString;
    x.string = std::move(v);
    return put(std::move(x)) != nullptr;
  }
  bool binary(nlohmann::json::binary_t&) override { return stop("binary data"); }
  bool start_object(size_t) override { return open(Value::kObject); }
  bool start_array(size_t) override { return open(Value::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& v) override {
    if (v.find('\0') != std::string::npos) return stop("a NUL character in a field name");
    auto& fields = open_.back()->fields;
    if (fields.size() >= kFieldsMax) return stop("an object with more than 1024 fields");
    if (std::any_of(fields.begin(), fields.end(), [&](const auto& f) { return f.name == v; })) {
      return stop("the field " + ticked(v) + " twice in one object");
    }
    key_ = std::move(v);
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception& e) override {
    // The library's own text, without its "[json.exception...] parse error at line 1, column 2: " in front.
    std::string text = e.what();
    size_t from = text.find(": ");
    if (from == std::string::npos) from = text.find("] ");
    return stop("byte " + std::to_string(at) + ": " + ticked(from == std::string::npos ? text : text.substr(from + 2)));
  }

 private:
  static constexpr size_t kFieldsMax = 1024;
  static constexpr size_t kValuesMax = 1000000;

  bool stop(std::string text) {
    why = std::move(text);
    return false;
  }
  Value* put(Value&& v) {
    if (++count_ > kValuesMax) return stop("more than a million values"), nullptr;
    if (open_.empty()) {
      root = std::move(v);
      return &root;
    }
    Value* at = open_.back();
    if (at->kind == Value::kArray) return &at->items.emplace_back(std::move(v));
    return &at->fields.emplace_back(Field{std::move(key_), std::move(v)}).value;
  }
  bool open(Value::Kind kind) {
    if (open_.size() >= kDepthMax) return stop("nesting deeper than " + std::to_string(kDepthMax));
    Value x;
    x.kind = kind;
    Value* at = put(std::move(x));  // stays valid: a parent grows only while it is the innermost open value
    if (at != nullptr) open_.push_back(at);
    return at != nullptr;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Value*> open_;
  std::string key_;
  size_t count_ = 0;
};

std::string found(const Value& v) {
  switch (v.kind) {
    case Value::kNull: return "null";
    case Value::kBool: return v.boolean ? "true" : "false";
    case Value::kInt: return std::to_string(v.integer);
    case Value::kFloat: return "a number with a fraction";
    case Value::kString: return "the string " + ticked(v.string);
    case Value::kArray: return "a list of " + std::to_string(v.items.size());
    case Value::kObject: return "an object";
  }
  return "";
}

}  // namespace

Value parse(std::string_view text, size_t max_bytes, kfr_status status, const std::string& what) {
  if (text.size() > max_bytes) {
    throw Error(status, what + ": " + std::to_string(text.size()) + " bytes of JSON (expected at most " + std::to_string(max_bytes) + ")");
  }
  Builder builder;
  bool ok = false;
  try {
    ok = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  } catch (const nlohmann::json::exception& e) { builder.why = e.what(); }
  if (!ok) throw Error(status, what + ": not the JSON that is read here: found " + builder.why);
  return std::move(builder.root);
}

void Node::wrong(const std::string& expected) const {
  throw Error(status_, "field `" + path_ + "` is " + found(*value_) + " (expected " + expected + ")");
}

void Node::fail(const std::string& text, const std::string& hint) const { throw Error(status_, "field `" + path_ + "`: " + text, hint); }

bool Node::boolean() const {
  if (value_->kind != Value::kBool) wrong("true or false");
  return value_->boolean;
}

int64_t Node::integer(int64_t low, int64_t high) const {
  if (value_->kind != Value::kInt || value_->integer < low || value_->integer > high) {
    wrong("an integer from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value_->integer;
}

double Node::number() const {
  if (value_->kind == Value::kInt) return static_cast<double>(value_->integer);
  if (value_->kind != Value::kFloat) wrong("a number");
  return value_->real;
}

const std::string& Node::string(size_t max_bytes) const {
  if (value_->kind != Value::kString || value_->string.size() > max_bytes) {
    wrong("a string of at most " + std::to_string(max_bytes) + " bytes");
  }
  return value_->string;
}

const std::string& Node::one_of(std::initializer_list<std::string_view> words) const {
  if (value_->kind == Value::kString && std::find(words.begin(), words.end(), value_->string) != words.end()) return value_->string;
  std::string expected;
  for (std::string_view word : words) expected += (expected.empty() ? "`" : " or `") + std::string(word) + "`";
  wrong(expected);
}

std::vector<Node> Node::array(size_t max_items) const {
  if (value_->kind != Value::kArray || value_->items.size() > max_items) wrong("a list of at most " + std::to_string(max_items));
  std::vector<Node> nodes;
  nodes.reserve(value_->items.size());
  for (size_t i = 0; i < value_->items.size(); ++i) nodes.push_back(child(value_->items[i], "[" + std::to_string(i) + "]"));
  return nodes;
}

std::vector<int64_t> Node::integers(size_t max_items, int64_t low, int64_t high) const {
  std::vector<int64_t> out;
  for (const Node& item : array(max_items)) out.push_back(item.integer(low, high));
  return out;
}

Fields::Fields(const Node& node) : node_(node) {
  if (node.value().kind != Value::kObject) node.wrong("an object");
  taken_.resize(node.value().fields.size());
}

std::optional<Node> Fields::find(std::string_view name) {
  const auto& fields = node_.value().fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name != name) continue;
    taken_[i] = true;
    return node_.child(fields[i].value, "." + fields[i].name);
  }
  return std::nullopt;
}

Node Fields::need(std::string_view name) {
  if (auto node = find(name)) return *std::move(node);
  node_.fail("missing field `" + std::string(name) + "`");
}

void Fields::close() const {
  const auto& fields = node_.value().fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!taken_[i]) node_.fail("unknown field " + ticked(fields[i].name));
  }
}

}  // namespace kf::json
