// expr_test.cc: the arithmetic of launch specs: values, precedence, every overflow, every way to be wrong.
#include "expr.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "support.h"

namespace kf {
namespace {

using testing::error_of;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();

int64_t eval(std::string_view text) {
  Names names;
  names.define("n", 10);
  names.define("big", kMax);
  names.define("low", kMin);
  names.define("self_size1", 64);
  names.define("twice", 1);
  names.define("twice", 2);
  names.define("same", 5);
  names.define("same", 5);
  return evaluate(text, names);
}

TEST(Expr, FollowsTheUsualPrecedenceAndGroupsToTheLeft) {
  EXPECT_EQ(eval("1 + 2 * 3"), 7);
  EXPECT_EQ(eval("(1 + 2) * 3"), 9);
  EXPECT_EQ(eval("20 - 5 - 3"), 12);
  EXPECT_EQ(eval("100 / 7 / 2"), 7);
  EXPECT_EQ(eval("2 * 7 % 4"), 2);
  EXPECT_EQ(eval("-n + 3"), -7);
  EXPECT_EQ(eval("--n"), 10);
  EXPECT_EQ(eval("3 - -2"), 5);
  EXPECT_EQ(eval("\t n*self_size1 "), 640);
  EXPECT_EQ(eval("same"), 5);
  EXPECT_EQ(eval("9223372036854775807"), kMax);
}

TEST(Expr, DividesAsCDoes) {
  EXPECT_EQ(eval("-7 / 2"), -3);
  EXPECT_EQ(eval("-7 % 2"), -1);
  EXPECT_EQ(eval("7 / -2"), -3);
  EXPECT_EQ(eval("7 % -2"), 1);
}

TEST(Expr, CeildivMinMax) {
  EXPECT_EQ(eval("ceildiv(7, 2)"), 4);
  EXPECT_EQ(eval("ceildiv(8, 2)"), 4);
  EXPECT_EQ(eval("ceildiv(-7, 2)"), -3);
  EXPECT_EQ(eval("ceildiv(-7, -2)"), 4);
  EXPECT_EQ(eval("ceildiv(7, -2)"), -3);
  EXPECT_EQ(eval("ceildiv(big, 1)"), kMax);
  EXPECT_EQ(eval("min(3, max(1, n))"), 3);
  EXPECT_EQ(eval("max(low, -1)"), -1);
}

TEST(Expr, EveryOverflowIsAnError) {
  for (const char* text : {"big + 1", "low - 1", "big * 2", "low * -1", "-low", "low / -1", "low % -1", "ceildiv(low, -1)",
                           "9223372036854775808", "99999999999999999999999", "big * big", "low + low", "-(low)"}) {
    EXPECT_NE(error_of([&] { eval(text); }, KFR_BAD_SPEC).find("does not fit 64 bits"), std::string::npos) << text;
  }
}

TEST(Expr, DivisionByZeroIsAnError) {
  for (const char* text : {"1 / 0", "1 % 0", "ceildiv(1, 0)", "1 / (n - 10)"}) {
    EXPECT_NE(error_of([&] { eval(text); }, KFR_BAD_SPEC).find("division by zero"), std::string::npos) << text;
  }
}

TEST(Expr, BadSyntaxIsAnErrorThatShowsTheText) {
  for (const char* text :
       {"",    " ",   "1 +", "(1",   "1)",  "1 2",       "n n",    "min(1)", "min(1,2,3)", "min 1, 2", "pow(2, 3)", "0x10",
        "1e3", "1.5", "+1",  "n[0]", "a;b", "system(1)", "1 // 2", "*2",     "\xff",       "1u",       "min(,)",    "n()"}) {
    std::string error = error_of([&] { eval(text); }, KFR_BAD_SPEC);
    EXPECT_EQ(error.find("evaluate `"), 0u) << text << ": " << error;
  }
}

TEST(Expr, UnknownAndAmbiguousNamesAreErrors) {
  EXPECT_NE(error_of([] { eval("m"); }, KFR_BAD_SPEC).find("unknown name `m`"), std::string::npos);
  EXPECT_NE(error_of([] { eval("twice"); }, KFR_BAD_SPEC).find("means two things"), std::string::npos);
}

TEST(Expr, DepthAndLengthAreBounded) {
  auto nested = [](size_t n) { return std::string(n, '(') + "1" + std::string(n, ')'); };
  EXPECT_EQ(eval(nested(60)), 1);
  EXPECT_NE(error_of([&] { eval(nested(400)); }, KFR_BAD_SPEC).find("nested deeper"), std::string::npos);
  EXPECT_NE(error_of([&] { eval(std::string(2000, '1')); }, KFR_BAD_SPEC).find("at most 1024"), std::string::npos);
  EXPECT_EQ(eval(std::string(1000, '-') + "1"), 1);  // a thousand signs are no thousand calls
}

TEST(Expr, TheCFunctionTakesNamesAndReportsErrors) {
  const char* names[] = {"a", "b"};
  const int64_t values[] = {6, 7};
  int64_t result = 0;
  kfr_error error{};
  EXPECT_EQ(kfr_expr_eval("a * b", 5, names, values, 2, &result, &error), KFR_OK);
  EXPECT_EQ(result, 42);
  EXPECT_EQ(error.text[0], 0);
  EXPECT_EQ(kfr_expr_eval("a * c", 5, names, values, 2, &result, &error), KFR_BAD_SPEC);
  EXPECT_STREQ(error.text, "evaluate `a * c`: unknown name `c`");
  EXPECT_EQ(error.code, KFR_BAD_SPEC);
  EXPECT_EQ(result, 42);
  EXPECT_EQ(kfr_expr_eval(nullptr, 1, names, values, 2, &result, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_expr_eval("1", 1, nullptr, values, 1, &result, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_expr_eval("1", 1, nullptr, nullptr, 0, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_expr_eval("a + 1 ignored", 5, names, values, 2, &result, nullptr), KFR_OK);
  EXPECT_EQ(result, 7);
}

}  // namespace
}  // namespace kf
