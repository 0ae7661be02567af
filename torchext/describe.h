// Describe: a sink of visit() that keeps what one call was, for capture records and for explain. Not on the serving path.
#ifndef KFT_DESCRIBE_H_
#define KFT_DESCRIBE_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "call.h"

namespace kft {

// One argument. `kind` is a kind of docs/formats.md; only the fields of that kind are set.
struct Argument {
  const char* kind = "none";
  int32_t dtype = 0;                    // kfr_dtype; for kind `dtype` torch's number
  std::vector<int64_t> sizes, strides;  // `ints` keeps its values in sizes
  std::vector<Argument> items;
  const char* scalar_type = "";  // bool, int, float
  bool flag = false;             // bool value, or wrapped_number
  int64_t bits = 0;              // int value, the bits of a float, or a wrapped tensor's bytes
  std::string text;
  at::Tensor payload;  // a copy with the same strides, when asked for
};

// One output as eager made it. alias: the input slot that it is, or -1.
struct Output {
  int32_t dtype = 0;
  std::vector<int64_t> sizes, strides;
  int32_t alias = -1;
};

// A copy of the tensor in new memory with the same strides, overlaps included. Runs operators: the caller keeps hooks off.
at::Tensor copy_of(const at::Tensor& t);
// Bytes that copy_of needs.
uint64_t span_bytes(const at::Tensor& t);
// `contiguous`, `channels_last` or `strided`.
const char* layout_of(const at::Tensor& t);

class Describe {
 public:
  Describe(Target target, bool payload) : target_(target), payload_(payload) { open_.push_back(&arguments); }

  std::vector<Argument> arguments;

  void tensor(const at::Tensor& t);
  void undefined() { add("undefined"); }
  void none() { add("none"); }
  void boolean(bool v) { add("bool").flag = v; }
  void integer(int64_t v) { add("int").bits = v; }
  void real(double v) { add("float").bits = kf::CallWords::bits(v); }
  void dtype(at::ScalarType v) { add("dtype").dtype = static_cast<int32_t>(v); }
  void string(std::string_view v) { add("string").text = std::string(v); }
  void ints(at::IntArrayRef v) { add("ints").sizes = v.vec(); }
  void list_begin(int64_t) { open_.push_back(&add("tensors").items); }
  void list_end() { open_.pop_back(); }
  void scalar(bool v) { scalar("bool", v); }
  void scalar(int64_t v) { scalar("int", v); }
  void scalar(double v) { scalar("float", kf::CallWords::bits(v)); }
  void refuse(Reason) {}  // Call has refused the same argument before

 private:
  Argument& add(const char* kind) {
    Argument& made = open_.back()->emplace_back();
    made.kind = kind;
    return made;
  }
  void scalar(const char* type, int64_t bits) {
    Argument& made = add("scalar");
    made.scalar_type = type;
    made.bits = bits;
  }

  Target target_;
  bool payload_;
  std::vector<std::vector<Argument>*> open_;  // lists do not nest in any operator, so the outer vector does not grow while one is open
};

}  // namespace kft
#endif  // KFT_DESCRIBE_H_
