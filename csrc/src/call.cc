// call.cc: `call` JSON to slots, names and words. The words come from kf::CallWords, the class that the hooks write with too.
#include "call.h"

#include <cmath>
#include <memory>

#include "error.h"
#include "kf_call.h"
#include "words.h"

namespace kf {
namespace {

constexpr int64_t kDimMax = 64;                   // torch's own limit
constexpr int64_t kExtentMax = int64_t{1} << 48;  // elements
constexpr int64_t kInt64Max = INT64_MAX, kInt64Min = INT64_MIN;

const DType& read_dtype(const json::Node& node) {
  const DType* type = dtype_named(node.string(32));
  if (type == nullptr) node.wrong("one of " + dtype_names());
  return *type;
}

uint64_t read_bits(const json::Node& node) {
  const std::string& text = node.string(16);
  uint64_t bits = 0;
  for (char c : text) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) node.wrong("16 hexadecimal digits");
    bits = bits << 4 | static_cast<uint64_t>(digit);
  }
  if (text.size() != 16) node.wrong("16 hexadecimal digits");
  return bits;
}

// A double as `value` (for people) and `bits` (which decide); the two must say the same number.
double read_float(json::Fields& fields) {
  json::Node shown = fields.need("value");
  uint64_t bits = read_bits(fields.need("bits"));
  double v;
  std::memcpy(&v, &bits, sizeof v);
  bool same;
  if (shown.value().kind == json::Value::kString) {
    const std::string& word = shown.one_of({"nan", "inf", "-inf"});
    same = word == "nan" ? std::isnan(v) : std::isinf(v) && (v < 0) == (word == "-inf");
  } else {
    same = shown.number() == v;
  }
  if (!same) shown.fail("another number than `bits`");
  return v;
}

// sizes, strides and what follows from them. A call with an empty argument is never served; an output may be empty (the statistics of a
// batch norm in evaluation).
void read_geometry(json::Fields& fields, Tensor* t, int64_t min_size) {
  t->dtype = read_dtype(fields.need("dtype")).id;
  json::Node sizes = fields.need("sizes"), strides = fields.need("strides");
  t->sizes = sizes.integers(kDimMax, min_size, kExtentMax);
  t->strides = strides.integers(kDimMax, 0, kExtentMax);
  if (t->sizes.size() != t->strides.size()) strides.wrong("as many as `sizes`, " + std::to_string(t->sizes.size()));
  int64_t extent = 1;
  for (size_t i = 0; i < t->sizes.size(); ++i) {
    int64_t reach = 0;
    bool big = __builtin_mul_overflow(t->numel, t->sizes[i], &t->numel) || t->numel > kExtentMax;
    big = big || __builtin_mul_overflow(t->sizes[i] - 1, t->strides[i], &reach) || __builtin_add_overflow(extent, reach, &extent);
    if (big || extent > kExtentMax) sizes.fail("the tensor spans more than 2^48 elements");
  }
  if (t->numel == 0) extent = 0;
  t->span_bytes = static_cast<uint64_t>(extent) * static_cast<uint64_t>(dtype_of(t->dtype)->size);
}

bool overlaps_itself(const Tensor& t) {
  for (size_t i = 0; i < t.sizes.size(); ++i) {
    if (t.sizes[i] > 1 && t.strides[i] == 0) return true;
  }
  return false;
}

void define_tensor(Names* names, const Tensor& t) {
  for (size_t i = 0; i < t.sizes.size(); ++i) {
    names->define(t.name + "_size" + std::to_string(i), t.sizes[i]);
    names->define(t.name + "_stride" + std::to_string(i), t.strides[i]);
  }
  names->define(t.name + "_numel", t.numel);
  names->define(t.name + "_dim", static_cast<int64_t>(t.sizes.size()));
}

class Reader {
 public:
  Reader(const json::Node& node) : words_(std::make_unique<CallWords>()) {
    json::Fields fields(node);
    call_.overload = fields.need("overload").string(128);
    for (const json::Node& arg : fields.need("args").array(kArgsMax)) read_arg(arg);
    json::Node outputs = fields.need("outputs");
    for (const json::Node& out : outputs.array(kSlotsMax)) read_output(out);
    fields.close();
    if (call_.outputs.empty()) outputs.wrong("at least one output");
    if (call_.inputs.size() + call_.outputs.size() > kSlotsMax) node.fail("more than " + std::to_string(kSlotsMax) + " tensors");
    if (words_->overflow()) node.fail("needs more than " + std::to_string(CallWords::kMax) + " words, so no guard can hold it");
    call_.words.assign(words_->data(), words_->data() + words_->count());
  }
  Call take() { return std::move(call_); }

 private:
  void read_arg(const json::Node& node) {
    json::Fields fields(node);
    json::Node name_node = fields.need("name");
    const std::string& name = name_node.string(64);
    if (!is_name(name)) name_node.wrong("a name of letters, digits and _");
    const std::string& kind = fields.need("kind").one_of(
        {"tensor", "undefined", "none", "tensors", "wrapped", "bool", "int", "string", "float", "ints", "bools", "dtype", "scalar"});
    if (kind == "tensor")
      add_tensor(fields, name);
    else if (kind == "undefined")
      words_->undefined();
    else if (kind == "none")
      words_->none();
    else if (kind == "tensors")
      add_list(fields, name);
    else if (kind == "scalar")
      add_scalar(fields);
    else if (kind == "bool")
      words_->boolean(fields.need("value").boolean());
    else if (kind == "float")
      words_->real(read_float(fields));
    else if (kind == "dtype")
      words_->dtype(read_dtype(fields.need("value")).scalar_type);
    else if (kind == "int") {
      int64_t v = fields.need("value").integer(kInt64Min, kInt64Max);
      words_->integer(v);
      call_.names.define(name, v);
    } else if (kind == "string") {
      const std::string& v = fields.need("value").string(4096);
      words_->string(v.data(), v.size());
    } else if (kind == "ints") {
      std::vector<int64_t> v = fields.need("value").integers(CallWords::kMax, kInt64Min, kInt64Max);
      words_->ints(v.data(), static_cast<int64_t>(v.size()));
      for (size_t i = 0; i < v.size(); ++i) call_.names.define(name + "_" + std::to_string(i), v[i]);
    } else if (kind == "bools") {
      bool v[CallWords::kMax];
      int64_t n = 0;
      for (const json::Node& item : fields.need("value").array(CallWords::kMax)) v[n++] = item.boolean();
      words_->bools(v, n);
    } else {
      const DType& type = read_dtype(fields.need("dtype"));
      bool number = fields.need("wrapped_number").boolean();
      words_->wrapped(type.id, number, static_cast<int64_t>(read_bits(fields.need("bits"))));
    }
    fields.close();
  }

  void add_tensor(json::Fields& fields, const std::string& name) {
    Tensor t;
    t.name = name;
    read_geometry(fields, &t, 1);
    words_->tensor(t.dtype, static_cast<int64_t>(t.sizes.size()), t.sizes.data(), t.strides.data());
    define_tensor(&call_.names, t);
    call_.inputs.push_back(std::move(t));
  }

  void add_list(json::Fields& fields, const std::string& name) {
    std::vector<json::Node> items = fields.need("items").array(kArgsMax);
    words_->tensors(static_cast<int64_t>(items.size()));
    call_.names.define(name + "_count", static_cast<int64_t>(items.size()));
    for (size_t i = 0; i < items.size(); ++i) {
      json::Fields item(items[i]);
      item.need("kind").one_of({"tensor"});
      if (auto unread = item.find("name")) unread->string(64);
      add_tensor(item, name + "_" + std::to_string(i));
      item.close();
    }
  }

  void add_scalar(json::Fields& fields) {
    const std::string& type = fields.need("type").one_of({"bool", "int", "float"});
    if (type == "bool")
      words_->scalar(fields.need("value").boolean());
    else if (type == "int")
      words_->scalar(fields.need("value").integer(kInt64Min, kInt64Max));
    else
      words_->scalar(read_float(fields));
  }

  void read_output(const json::Node& node) {
    json::Fields fields(node);
    Tensor t;
    t.name = "out" + std::to_string(call_.outputs.size());
    read_geometry(fields, &t, 0);
    json::Node alias = fields.need("alias");
    t.alias = static_cast<int32_t>(alias.integer(-1, static_cast<int64_t>(call_.inputs.size()) - 1));
    fields.close();
    if (overlaps_itself(t)) node.fail("an output with several elements in one place");
    if (t.alias >= 0) {
      const Tensor& in = call_.inputs[static_cast<size_t>(t.alias)];
      if (in.dtype != t.dtype || in.sizes != t.sizes || in.strides != t.strides) {
        alias.fail("slot " + std::to_string(t.alias) + " (" + ticked(in.name) + ") has another dtype, sizes or strides than this output");
      }
      words_->alias(t.alias);
    }
    define_tensor(&call_.names, t);
    call_.outputs.push_back(std::move(t));
  }

  static bool is_name(const std::string& s) {
    for (char c : s) {
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
    }
    return !s.empty() && !(s[0] >= '0' && s[0] <= '9');
  }

  Call call_;
  std::unique_ptr<CallWords> words_;
};

}  // namespace

Call read_call(const json::Node& node) { return Reader(node).take(); }

}  // namespace kf
