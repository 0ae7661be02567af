// spec_test.cc: launch specs out of the documents, bound to a call; and every strictness of the reader.
#include "spec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support.h"
#include "target.h"

namespace kf {
namespace {

using testing::doc_example;
using testing::error_of;
using testing::replaced;
using testing::tensor_json;

const char* const kGood = R"js({"schema": 1, "constants": {"VEC": "8"}, "workspaces": [{"bytes": "threads * 64", "zeroed": true}],
  "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "ceildiv(out0_numel, threads)",
               "args": [{"slot": "self"}, {"slot": "out0"}, {"slot": "ws0"}, {"int": "self_size1 - 1"}, {"float": "0.5"}]}]})js";

Spec read(const std::string& spec, const std::string& call = doc_example("call"), int threads = 2) {
  json::Value call_value = json::parse(call, 1 << 20, KFR_BAD_SPEC, "read");
  Call bound = read_call(json::Node(call_value, "call", KFR_BAD_SPEC));
  json::Value plan = json::parse(R"({"id": "p-1", "threads": )" + std::to_string(threads) + "}", 99, KFR_BAD_SPEC, "read");
  json::Fields fields(json::Node(plan, "plan", KFR_BAD_SPEC));
  std::unique_ptr<Code> code = host_target().open("", fields, &bound.names);
  json::Value value = json::parse(spec, 1 << 20, KFR_BAD_SPEC, "read");
  return read_spec(json::Node(value, "spec", KFR_BAD_SPEC), bound, bound.names, *code);
}

TEST(Spec, TheDocumentsExampleIsReadAndEvaluated) {
  Spec spec = read(doc_example("spec"), doc_example("call"), 3);
  ASSERT_EQ(spec.workspaces.size(), 1u);
  EXPECT_EQ(spec.workspaces[0].bytes, 3u * 4096);
  EXPECT_FALSE(spec.workspaces[0].zeroed);
  ASSERT_EQ(spec.kernels.size(), 1u);
  const Kernel& k = spec.kernels[0];
  EXPECT_EQ(k.entry, "kf_main");
  EXPECT_EQ(k.geometry, (std::vector<int64_t>{4 * 64 * 56 * 56, 16384}));
  ASSERT_EQ(k.args.size(), 5u);
  EXPECT_EQ(k.args[0].slot, 0u);
  EXPECT_EQ(k.args[1].slot, 1u);
  EXPECT_EQ(k.args[2].slot, 3u);  // one input, two outputs, then the workspace
  EXPECT_EQ(k.args[3].integer, 64);
  EXPECT_EQ(k.args[4].real, 0.125);
  EXPECT_EQ(spec.slots(), 4u);
}

TEST(Spec, FactsOfTheHostAreNames) {
  Spec spec = read(replaced(kGood, "\"threads * 64\"", "\"threads + cache_line + min(l2_bytes, 1)\""));
  EXPECT_EQ(spec.workspaces[0].bytes, 2u + 64 + 1);
}

TEST(Spec, AnAliasedOutputIsItsInputsSlot) {
  std::string in_place = R"({"overload": "aten::relu_", "args": [)" + tensor_json("self", {2, 2}) +
                         R"(], "outputs": [{"dtype": "float32", "sizes": [2, 2], "strides": [2, 1], "alias": 0}]})";
  Spec spec = read(kGood, in_place);
  EXPECT_EQ(spec.kernels[0].args[1].slot, 0u);
  EXPECT_EQ(spec.kernels[0].args[2].slot, 2u);
}

TEST(Spec, ANameThatMeansTwoTensorsIsRefused) {
  std::string call = R"({"overload": "aten::x.out", "args": [)" + tensor_json("self", {2, 2}) + "," + tensor_json("out0", {2, 2}) +
                     R"(], "outputs": [{"dtype": "float32", "sizes": [2, 2], "strides": [2, 1], "alias": 1}]})";
  EXPECT_EQ(read(kGood, call).kernels[0].args[1].slot, 1u);  // the argument out0 is output 0: one thing
  EXPECT_NE(error_of([&] { read(kGood, replaced(call, "\"alias\": 1", "\"alias\": 0")); }, KFR_BAD_SPEC).find("means two things"),
            std::string::npos);
}

TEST(Spec, LiteralsAreDecimalOrHexadecimal) {
  auto value = [](const std::string& text) {
    return read(replaced(kGood, "\"float\": \"0.5\"", "\"float\": \"" + text + "\"")).kernels[0].args[4].real;
  };
  EXPECT_EQ(value("-1.5e3"), -1500.0);
  EXPECT_EQ(value("0x1.0c6f7ap-20"), 0x1.0c6f7ap-20);
  EXPECT_EQ(value("-0x1p-3"), -0.125);
  EXPECT_EQ(value("+.5"), 0.5);
  EXPECT_TRUE(std::signbit(value("-0")));
  for (const char* text : {"", "inf", "nan", "-inf", "1e999", "1.0f", " 1", "1 ", "0x", "--1", "1,5", "0x1p", "abc", "+-1"}) {
    EXPECT_NE(error_of([&] { value(text); }, KFR_BAD_SPEC).find("field `spec.kernels[0].args[4].float`"), std::string::npos) << text;
  }
}

TEST(Spec, RefusalsNameTheField) {
  const char* cases[][3] = {
      {"\"schema\": 1", "\"schema\": 2", "field `spec.schema` is 2"},
      {"\"schema\": 1", "\"schema\": \"1\"", "field `spec.schema`"},
      {"{\"VEC\": \"8\"}", "{\"vec\": \"8\"}", "constant `vec`"},
      {"{\"VEC\": \"8\"}", "{\"VEC\": \"8;rm\"}", "field `spec.constants.VEC`"},
      {"{\"VEC\": \"8\"}", "{\"VEC\": 8}", "field `spec.constants.VEC` is 8"},
      {"{\"VEC\": \"8\"}", "[]", "field `spec.constants`"},
      {"{\"VEC\": \"8\"}", "null", "field `spec.constants` is null"},
      {"\"threads * 64\"", "\"0\"", "field `spec.workspaces[0].bytes`: `0` is 0 here (expected 1 to "},
      {"\"threads * 64\"", "\"0 - 5\"", "is -5 here"},
      {"\"threads * 64\"", "64", "field `spec.workspaces[0].bytes` is 64 (expected a string"},
      {"\"threads * 64\"", "\"sm_count\"", "field `spec.workspaces[0].bytes`: evaluate `sm_count`: unknown name"},
      {"\"zeroed\": true", "\"zeroed\": 1", "field `spec.workspaces[0].zeroed`"},
      {"\"entry\": \"kf_main\"", "\"entry\": \"1main\"", "field `spec.kernels[0].entry`"},
      {"\"entry\": \"kf_main\"", "\"entry\": \"\"", "field `spec.kernels[0].entry`"},
      {"\"work\": \"out0_numel\"", "\"work\": \"out9_numel\"", "unknown name `out9_numel`"},
      {"\"work\": \"out0_numel\"", "\"work\": \"0\"", "field `spec.kernels[0].work`"},
      {"\"grain\": ", "\"grid\": ", "missing field `grain`"},
      {"\"work\": ", "\"smem\": \"0\", \"work\": ", "unknown field `smem`"},
      {"{\"slot\": \"ws0\"}", "{\"slot\": \"ws1\"}", "no tensor or workspace is called `ws1`"},
      {"{\"slot\": \"ws0\"}", "{\"slot\": \"ws0\", \"int\": \"1\"}", "exactly one of"},
      {"{\"slot\": \"ws0\"}", "{}", "exactly one of"},
      {"{\"int\": \"self_size1 - 1\"}", "{\"int\": \"1\", \"type\": \"i32\"}", "unknown field `type`"},
      {"{\"int\": \"self_size1 - 1\"}", "{\"int\": \"9223372036854775807 + 1\"}", "does not fit 64 bits"},
      {"\"kernels\": [", "\"more\": 1, \"kernels\": [", "unknown field `more`"},
  };
  for (auto& [old, fresh, expected] : cases) {
    std::string error = error_of([&] { read(replaced(kGood, old, fresh)); }, KFR_BAD_SPEC);
    EXPECT_NE(error.find(expected), std::string::npos) << fresh << ": " << error;
  }
  EXPECT_NE(error_of([] { read(R"({"schema": 1, "constants": {}, "workspaces": [], "kernels": []})"); }, KFR_BAD_SPEC)
                .find("at least one kernel"),
            std::string::npos);
}

TEST(Spec, CountsAreBounded) {
  auto many = [](const std::string& item, size_t n) {
    std::string out = item;
    for (size_t i = 1; i < n; ++i) out += "," + item;
    return out;
  };
  std::string workspace = R"({"bytes": "threads * 64", "zeroed": true})";
  read(replaced(kGood, workspace, many(workspace, kWorkspacesMax)));
  EXPECT_NE(error_of([&] { read(replaced(kGood, workspace, many(workspace, kWorkspacesMax + 1))); }, KFR_BAD_SPEC)
                .find("field `spec.workspaces` is a list of 17"),
            std::string::npos);
  std::string arg = R"({"slot": "self"})";
  read(replaced(kGood, arg, many(arg, kKernelArgsMax - 4)));
  EXPECT_NE(error_of([&] { read(replaced(kGood, arg, many(arg, kKernelArgsMax))); }, KFR_BAD_SPEC).find("args` is a list of 260"),
            std::string::npos);
}

TEST(Target, OrdinalsAreDevices) {
  EXPECT_STREQ(target_of(KFR_HOST).name(), "host");
  EXPECT_STREQ(target_of(0).name(), "cuda");
  EXPECT_STREQ(target_of(63).name(), "cuda");
  EXPECT_NE(error_of([] { target_of(64); }, KFR_NO_DEVICE).find("no such ordinal"), std::string::npos);
  EXPECT_NE(error_of([] { target_of(-2); }, KFR_NO_DEVICE).find("no such ordinal"), std::string::npos);
}

}  // namespace
}  // namespace kf
