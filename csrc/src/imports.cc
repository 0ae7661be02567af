// imports.cc: the symbols that a host image may import: libm, the memory functions that compilers emit, and their arithmetic helpers.
//
// The list keeps an image from asking the loader for anything else. It is no sandbox: judging runs in a worker process for that.
#include <algorithm>
#include <iterator>

#include "image.h"

namespace kf {
namespace {

// Each with its float form (name + "f").
constexpr std::string_view kMath[] = {
    "acos",    "acosh",  "asin",   "asinh",  "atan",      "atan2",     "atanh",  "cbrt",      "ceil",   "copysign", "cos",   "cosh",
    "erf",     "erfc",   "exp",    "exp10",  "exp2",      "expm1",     "fabs",   "fdim",      "floor",  "fma",      "fmax",  "fmin",
    "fmod",    "frexp",  "hypot",  "ilogb",  "ldexp",     "lgamma_r",  "llrint", "llround",   "log",    "log10",    "log1p", "log2",
    "logb",    "lrint",  "lround", "modf",   "nearbyint", "nextafter", "pow",    "remainder", "remquo", "rint",     "round", "roundeven",
    "scalbln", "scalbn", "sin",    "sincos", "sinh",      "sqrt",      "tan",    "tanh",      "tgamma", "trunc",
};

constexpr std::string_view kOthers[] = {
    // memory functions: compilers emit them for loops and copies, the checked forms under fortification
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "bcmp",
    "__memcpy_chk",
    "__memmove_chk",
    "__memset_chk",
    "__stack_chk_fail",
    // libgcc: 128-bit integers, narrow floats, bit counts
    "__divti3",
    "__modti3",
    "__udivti3",
    "__umodti3",
    "__multi3",
    "__divmodti4",
    "__udivmodti4",
    "__ashlti3",
    "__ashrti3",
    "__lshrti3",
    "__floattidf",
    "__floattisf",
    "__floatuntidf",
    "__floatuntisf",
    "__fixdfti",
    "__fixsfti",
    "__fixunsdfti",
    "__fixunssfti",
    "__extendhfsf2",
    "__extendhfdf2",
    "__truncsfhf2",
    "__truncdfhf2",
    "__extendbfsf2",
    "__truncsfbf2",
    "__truncdfbf2",
    "__popcountdi2",
    "__popcountsi2",
    "__clzdi2",
    "__ctzdi2",
    "__powidf2",
    "__powisf2",
};

}  // namespace

bool allowed_import(std::string_view symbol) {
  auto in = [&](const auto& list, std::string_view name) { return std::find(std::begin(list), std::end(list), name) != std::end(list); };
  if (in(kOthers, symbol) || in(kMath, symbol)) return true;
  if (symbol == "lgammaf_r" || symbol == "remquof") return true;
  return symbol.size() > 1 && symbol.back() == 'f' && in(kMath, symbol.substr(0, symbol.size() - 1));
}

}  // namespace kf
