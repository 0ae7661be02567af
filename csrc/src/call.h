// call.h: a call as its JSON says it (docs/formats.md, `call`): tensors by slot, the words of the guard, and the names for expressions.
#ifndef KF_CALL_READER_H_
#define KF_CALL_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "expr.h"
#include "json.h"

namespace kf {

struct Tensor {
  std::string name;  // as launch specs say it: `self`, `tensors_0`, `out1`
  int32_t dtype = 0;
  int32_t alias = -1;  // outputs: the input slot that it is, or -1
  std::vector<int64_t> sizes, strides;
  int64_t numel = 1;
  uint64_t span_bytes = 0;  // from its first to past its last element
};

struct Call {
  std::string overload;
  std::vector<Tensor> inputs, outputs;
  std::vector<int64_t> words;
  Names names;
};

inline constexpr size_t kArgsMax = 64;
inline constexpr size_t kSlotsMax = 128;

// Reads a call. Errors carry the node's status and name the field.
Call read_call(const json::Node& node);

}  // namespace kf
#endif  // KF_CALL_READER_H_
