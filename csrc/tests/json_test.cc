// json_test.cc: what the strict reader refuses, and that it names the field.
#include "json.h"

#include <gtest/gtest.h>

#include "support.h"

namespace kf::json {
namespace {

using testing::error_of;

Value parse_text(const std::string& text) { return parse(text, 1 << 20, KFR_BAD_SPEC, "read"); }
Node root(const Value& value) { return Node(value, "plan", KFR_BAD_SPEC); }

TEST(Json, KeepsEveryKindOfValue) {
  Value v = parse_text(R"({"a": [null, true, -5, 1.5, "x\u00e9"], "b": {}})");
  ASSERT_EQ(v.kind, Value::kObject);
  const Value& a = v.fields[0].value;
  EXPECT_EQ(a.items[0].kind, Value::kNull);
  EXPECT_TRUE(a.items[1].boolean);
  EXPECT_EQ(a.items[2].integer, -5);
  EXPECT_EQ(a.items[3].real, 1.5);
  EXPECT_EQ(a.items[4].string, "x\xc3\xa9");
  EXPECT_EQ(v.fields[1].value.kind, Value::kObject);
}

TEST(Json, IntegersStayExactTo64Bits) {
  EXPECT_EQ(parse_text("9223372036854775807").integer, INT64_MAX);
  EXPECT_EQ(parse_text("-9223372036854775808").integer, INT64_MIN);
  for (const char* text : {"9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775809"}) {
    EXPECT_NE(error_of([&] { parse_text(text); }, KFR_BAD_SPEC).find("an integer outside 64 bits"), std::string::npos) << text;
  }
}

TEST(Json, HostileDocumentsAreRefused) {
  const char* cases[][2] = {
      {"", "byte"},
      {"{", "byte"},
      {"[1,]", "byte"},
      {"{} {}", "byte"},
      {"{\"a\": 1, \"a\": 2}", "the field `a` twice"},
      {"\"\\u0000\"", "NUL"},
      {"{\"\\u0000\": 1}", "NUL"},
      {"\"\xff\"", "byte"},
      {"1e999", "found"},
      {"nan", "byte"},
      {"// c\n1", "byte"},
      {"'a'", "byte"},
      {"\x01", "byte"},
  };
  for (auto& [text, expected] : cases) {
    std::string error = error_of([&] { parse_text(text); }, KFR_BAD_SPEC);
    EXPECT_NE(error.find(expected), std::string::npos) << text << ": " << error;
    EXPECT_EQ(error.find("json.exception"), std::string::npos) << error;
  }
}

TEST(Json, DepthSizeAndCountAreBounded) {
  auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(parse_text(nested(24)).kind, Value::kArray);
  EXPECT_NE(error_of([&] { parse_text(nested(25)); }, KFR_BAD_SPEC).find("deeper than 24"), std::string::npos);
  EXPECT_NE(error_of([&] { parse_text(nested(100000)); }, KFR_BAD_SPEC).find("deeper than 24"), std::string::npos);
  EXPECT_NE(error_of([] { parse("[1, 2]", 5, KFR_BAD_PACK, "read"); }, KFR_BAD_PACK).find("6 bytes of JSON (expected at most 5)"),
            std::string::npos);
  std::string many = "[0";
  for (int i = 0; i < 1000000; ++i) many += ",0";
  EXPECT_NE(error_of([&] { parse(many + "]", many.size() + 1, KFR_BAD_SPEC, "read"); }, KFR_BAD_SPEC).find("more than a million"),
            std::string::npos);
}

TEST(Json, FieldsNameWhatIsMissingUnknownOrOfTheWrongType) {
  Value v = parse_text(R"({"id": 5, "list": [1, "x"], "surplus": {}})");
  Fields fields(root(v));
  EXPECT_EQ(error_of([&] { fields.need("id").string(9); }, KFR_BAD_SPEC), "field `plan.id` is 5 (expected a string of at most 9 bytes)");
  EXPECT_EQ(error_of([&] { fields.need("list").integers(9, 0, 9); }, KFR_BAD_SPEC),
            "field `plan.list[1]` is the string `x` (expected an integer from 0 to 9)");
  EXPECT_EQ(error_of([&] { fields.need("list").array(1); }, KFR_BAD_SPEC),
            "field `plan.list` is a list of 2 (expected a list of at most 1)");
  EXPECT_EQ(error_of([&] { fields.need("call"); }, KFR_BAD_SPEC), "field `plan`: missing field `call`");
  EXPECT_EQ(error_of([&] { fields.need("id").boolean(); }, KFR_BAD_SPEC), "field `plan.id` is 5 (expected true or false)");
  EXPECT_EQ(error_of([&] { fields.need("id").one_of({"a", "b"}); }, KFR_BAD_SPEC), "field `plan.id` is 5 (expected `a` or `b`)");
  EXPECT_EQ(error_of([&] { fields.close(); }, KFR_BAD_SPEC), "field `plan`: unknown field `surplus`");
  EXPECT_FALSE(fields.find("none").has_value());
  EXPECT_EQ(error_of([&] { Fields(fields.need("id")); }, KFR_BAD_SPEC), "field `plan.id` is 5 (expected an object)");
}

TEST(Json, AHostileNameCannotBreakTheMessage) {
  Value v = parse_text("{\"a\\n`\\u001b[2J" + std::string(500, 'x') + "\": 1}");
  Fields fields(root(v));
  std::string error = error_of([&] { fields.close(); }, KFR_BAD_SPEC);
  EXPECT_EQ(error.find('\n'), std::string::npos);
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
  EXPECT_LT(error.size(), 200u);
}

}  // namespace
}  // namespace kf::json
