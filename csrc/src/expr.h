// expr.h: the arithmetic of a launch spec. Integers, names, + - * / % ( ) and ceildiv, min, max; nothing else, and never a host language.
#ifndef KF_EXPR_H_
#define KF_EXPR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kf {

// The names that an expression may use. A name defined twice with different values is ambiguous: using it is an error.
class Names {
 public:
  void define(const std::string& name, int64_t value);
  bool known(const std::string& name) const { return values_.contains(name); }
  int64_t value(const std::string& name) const;  // throws Error(KFR_BAD_SPEC)

 private:
  std::unordered_map<std::string, std::optional<int64_t>> values_;
};

inline constexpr size_t kExprBytesMax = 1024;

// Throws Error(KFR_BAD_SPEC) on overflow, division by zero, an unknown name, bad syntax or trailing characters.
int64_t evaluate(std::string_view text, const Names& names);

}  // namespace kf
#endif  // KF_EXPR_H_
