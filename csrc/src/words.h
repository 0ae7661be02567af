// words.h: element types and overload ids, the numbers that guards and tables are made of.
#ifndef KF_WORDS_H_
#define KF_WORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kf {

struct DType {
  int32_t id;           // kfr_dtype
  const char* name;     // torch's
  int32_t size;         // bytes an element
  int64_t scalar_type;  // torch's c10::ScalarType, for ScalarType arguments
};

const DType* dtype_named(std::string_view name);  // NULL if there is none
const DType* dtype_of(int32_t id);
std::string dtype_names();  // for messages

// Ids are dense and live as long as the process. Throws Error when the name is no overload or all ids are in use.
int32_t op_id(std::string_view overload);
std::string op_name(int32_t id);

}  // namespace kf
#endif  // KF_WORDS_H_
