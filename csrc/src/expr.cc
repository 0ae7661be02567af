// expr.cc: a recursive-descent evaluator; every step is checked for overflow, and the depth is bounded.
//
//   sum     = product (("+" | "-") product)*
//   product = unary (("*" | "/" | "%") unary)*
//   unary   = "-" unary | atom
//   atom    = digits | name | ("ceildiv" | "min" | "max") "(" sum "," sum ")" | "(" sum ")"
#include "expr.h"

#include <algorithm>
#include <limits>

#include "error.h"

namespace kf {
namespace {

constexpr int kDepthMax = 64;
constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Parser {
 public:
  Parser(std::string_view text, const Names& names) : text_(text), names_(names) {}

  int64_t run() {
    int64_t v = sum();
    if (at_ < text_.size()) fail("unexpected " + ticked(text_.substr(at_, 1)) + " at character " + std::to_string(at_ + 1));
    return v;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(KFR_BAD_SPEC, "evaluate " + ticked(text_) + ": " + what); }
  [[noreturn]] void overflow() const { fail("the result does not fit 64 bits"); }

  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected `") + c + "` at character " + std::to_string(at_ + 1));
  }

  int64_t sum() {
    if (++depth_ > kDepthMax) fail("nested deeper than " + std::to_string(kDepthMax));
    int64_t v = product();
    for (;;) {
      if (take('+')) {
        if (__builtin_add_overflow(v, product(), &v)) overflow();
      } else if (take('-')) {
        if (__builtin_sub_overflow(v, product(), &v)) overflow();
      } else {
        --depth_;
        space();
        return v;
      }
    }
  }

  int64_t product() {
    int64_t v = unary();
    for (;;) {
      if (take('*')) {
        if (__builtin_mul_overflow(v, unary(), &v)) overflow();
      } else if (take('/')) {
        int64_t d = divisor(v, unary());
        v /= d;
      } else if (take('%')) {
        int64_t d = divisor(v, unary());
        v %= d;
      } else {
        return v;
      }
    }
  }

  int64_t divisor(int64_t v, int64_t d) const {
    if (d == 0) fail("division by zero");
    if (v == kLowest && d == -1) overflow();
    return d;
  }

  int64_t unary() {
    bool negative = false;
    while (take('-')) negative = !negative;
    int64_t v = atom();
    if (!negative) return v;
    if (v == kLowest) overflow();
    return -v;
  }

  int64_t atom() {
    char c = peek();
    if (take('(')) {
      int64_t v = sum();
      expect(')');
      return v;
    }
    if (is_digit(c)) return number();
    if (is_name(c)) return name();
    if (at_ >= text_.size()) fail("ends where a value is expected");
    fail("unexpected " + ticked(text_.substr(at_, 1)) + " at character " + std::to_string(at_ + 1));
  }

  int64_t number() {
    int64_t v = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(v, int64_t{10}, &v) || __builtin_add_overflow(v, int64_t{text_[at_] - '0'}, &v)) overflow();
    }
    if (at_ < text_.size() && is_name(text_[at_])) fail("a name may not begin with a digit");
    return v;
  }

  int64_t name() {
    size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    std::string word(text_.substr(begin, at_ - begin));
    if (peek() != '(') return lookup(word);
    if (word != "ceildiv" && word != "min" && word != "max") fail("unknown function " + ticked(word) + " (expected ceildiv, min or max)");
    expect('(');
    int64_t a = sum();
    expect(',');
    int64_t b = sum();
    expect(')');
    if (word == "min") return std::min(a, b);
    if (word == "max") return std::max(a, b);
    int64_t d = divisor(a, b);
    int64_t q = a / d;
    return a % d != 0 && (a < 0) == (d < 0) ? q + 1 : q;  // towards plus infinity for every sign
  }

  int64_t lookup(const std::string& word) const {
    if (!names_.known(word)) fail("unknown name " + ticked(word));
    return names_.value(word);
  }

  std::string_view text_;
  const Names& names_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

void Names::define(const std::string& name, int64_t value) {
  auto [at, fresh] = values_.try_emplace(name, value);
  if (!fresh && at->second != value) at->second = std::nullopt;
}

int64_t Names::value(const std::string& name) const {
  auto at = values_.find(name);
  if (at == values_.end()) throw Error(KFR_BAD_SPEC, "unknown name " + ticked(name));
  if (!at->second) throw Error(KFR_BAD_SPEC, "name " + ticked(name) + " means two things in this call");
  return *at->second;
}

int64_t evaluate(std::string_view text, const Names& names) {
  if (text.size() > kExprBytesMax) {
    throw Error(KFR_BAD_SPEC, "evaluate " + ticked(text) + ": " + std::to_string(text.size()) + " characters (expected at most " +
                                  std::to_string(kExprBytesMax) + ")");
  }
  return Parser(text, names).run();
}

}  // namespace kf
