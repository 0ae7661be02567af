// call_test.cc: words out of call JSON equal words written by hand, for every kind; slots, names and refusals.
#include "call.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kf_call.h"
#include "support.h"

namespace kf {
namespace {

using testing::doc_example;
using testing::error_of;
using testing::replaced;
using testing::tensor_json;

Call read(const std::string& text) {
  json::Value value = json::parse(text, 1 << 20, KFR_BAD_SPEC, "read");
  return read_call(json::Node(value, "call", KFR_BAD_SPEC));
}

std::string with_arg(const std::string& arg) {
  return R"({"overload": "aten::x", "args": [)" + arg +
         R"(], "outputs": [{"dtype": "float32", "sizes": [2], "strides": [1], "alias": -1}]})";
}

std::vector<int64_t> words_of(const CallWords& w) { return {w.data(), w.data() + w.count()}; }

TEST(Call, TheDocumentsExampleGivesTheWordsOfAHook) {
  Call call = read(doc_example("call"));
  const int64_t sizes[] = {4, 64, 112, 112}, strides[] = {802816, 12544, 112, 1}, three[] = {3, 3}, two[] = {2, 2}, zero[] = {0, 0},
                one[] = {1, 1};
  CallWords w;
  w.tensor(KFR_F32, 4, sizes, strides);
  w.ints(three, 2);
  w.ints(two, 2);
  w.ints(zero, 2);
  w.ints(one, 2);
  w.boolean(true);
  EXPECT_EQ(call.words, words_of(w));
  EXPECT_EQ(call.overload, "aten::max_pool2d_with_indices");
  ASSERT_EQ(call.outputs.size(), 2u);
  EXPECT_EQ(call.outputs[1].dtype, KFR_I64);
  EXPECT_EQ(call.names.value("self_size3"), 112);
  EXPECT_EQ(call.names.value("self_stride0"), 802816);
  EXPECT_EQ(call.names.value("self_numel"), 4 * 64 * 112 * 112);
  EXPECT_EQ(call.names.value("self_dim"), 4);
  EXPECT_EQ(call.names.value("out1_size2"), 56);
  EXPECT_EQ(call.names.value("kernel_size_1"), 3);
}

// The encoding itself, number by number: if this changes, every pack in the world breaks, and KFR_ABI_VERSION must say so.
TEST(Call, TheEncodingIsFixed) {
  const int64_t sizes[] = {2, 3}, strides[] = {3, 1}, ints[] = {7, -1};
  const bool bools[] = {true, false};
  CallWords w;
  w.tensor(KFR_F32, 2, sizes, strides);
  w.undefined();
  w.none();
  w.boolean(true);
  w.integer(-9);
  w.real(-0.0);
  w.dtype(6);
  w.ints(ints, 2);
  w.bools(bools, 2);
  w.tensors(1);
  w.scalar(true);
  w.scalar(int64_t{1});
  w.scalar(1.0);
  w.wrapped(KFR_I64, true, 5);
  w.alias(0);
  const int64_t one_bits = 0x3FF0000000000000;
  std::vector<int64_t> expected = {1 | 2 << 8 | 9 << 16,
                                   2,
                                   3,
                                   3,
                                   1,
                                   2,
                                   3,
                                   4,
                                   1,
                                   5,
                                   -9,
                                   6,
                                   INT64_MIN,
                                   15,
                                   6,
                                   8 | 2 << 8,
                                   7,
                                   -1,
                                   17 | 2 << 8,
                                   1,
                                   0,
                                   10 | 1 << 8,
                                   11,
                                   1,
                                   12,
                                   1,
                                   13,
                                   one_bits,
                                   14 | 1 << 8 | 6 << 16,
                                   5,
                                   16,
                                   0};
  EXPECT_EQ(words_of(w), expected);
  EXPECT_EQ(CallWords::fnv("none", 4), 0x3c0d17bad169557b);  // FNV-1a, 64 bit
}

TEST(Call, EveryKindHasTheWordsOfItsTypedWriter) {
  auto expect = [](const std::string& arg, auto write) {
    CallWords w;
    write(w);
    EXPECT_EQ(read(with_arg(arg)).words, words_of(w)) << arg;
  };
  expect(R"({"name": "a", "kind": "undefined"})", [](CallWords& w) { w.undefined(); });
  expect(R"({"name": "a", "kind": "none"})", [](CallWords& w) { w.none(); });
  expect(R"({"name": "a", "kind": "bool", "value": false})", [](CallWords& w) { w.boolean(false); });
  expect(R"({"name": "a", "kind": "int", "value": -3})", [](CallWords& w) { w.integer(-3); });
  expect(R"({"name": "a", "kind": "string", "value": "tanh"})", [](CallWords& w) { w.string("tanh", 4); });
  expect(R"({"name": "a", "kind": "float", "value": 1e-5, "bits": "3ee4f8b588e368f1"})", [](CallWords& w) { w.real(1e-5); });
  expect(R"({"name": "a", "kind": "float", "value": "-inf", "bits": "FFF0000000000000"})", [](CallWords& w) { w.real(-INFINITY); });
  expect(R"({"name": "a", "kind": "ints", "value": []})", [](CallWords& w) { w.ints(nullptr, 0); });
  expect(R"({"name": "a", "kind": "bools", "value": [true, false]})", [](CallWords& w) {
    const bool v[] = {true, false};
    w.bools(v, 2);
  });
  expect(R"({"name": "a", "kind": "dtype", "value": "bfloat16"})", [](CallWords& w) { w.dtype(15); });
  expect(R"({"name": "a", "kind": "scalar", "type": "bool", "value": true})", [](CallWords& w) { w.scalar(true); });
  expect(R"({"name": "a", "kind": "scalar", "type": "int", "value": 1})", [](CallWords& w) { w.scalar(int64_t{1}); });
  expect(R"({"name": "a", "kind": "scalar", "type": "float", "value": 1.0, "bits": "3ff0000000000000"})",
         [](CallWords& w) { w.scalar(1.0); });
  expect(R"({"name": "a", "kind": "wrapped", "dtype": "float64", "wrapped_number": true, "bits": "3ff0000000000000"})",
         [](CallWords& w) { w.wrapped(KFR_F64, true, CallWords::bits(1.0)); });
  expect(R"({"name": "a", "kind": "tensors", "items": [)" + tensor_json("", {2}) + "," + tensor_json("", {3, 4}, "int64") + "]}",
         [](CallWords& w) {
           const int64_t two[] = {2}, one[] = {1}, sizes[] = {3, 4}, strides[] = {4, 1};
           w.tensors(2);
           w.tensor(KFR_F32, 1, two, one);
           w.tensor(KFR_I64, 2, sizes, strides);
         });
  expect(tensor_json("a", {}), [](CallWords& w) { w.tensor(KFR_F32, 0, nullptr, nullptr); });
}

TEST(Call, SignedZeroesDiffer) {
  auto zero = [](const char* value, const char* bits) {
    return read(with_arg(R"({"name": "a", "kind": "float", "value": )" + std::string(value) + R"(, "bits": ")" + bits + "\"}")).words;
  };
  EXPECT_NE(zero("0.0", "0000000000000000"), zero("-0.0", "8000000000000000"));
}

TEST(Call, ValueAndBitsMustSayTheSame) {
  for (const char* value : {"1.0", "\"inf\"", "\"nan\""}) {
    std::string arg = R"({"name": "a", "kind": "float", "value": )" + std::string(value) + R"(, "bits": "4000000000000000"})";
    EXPECT_EQ(error_of([&] { read(with_arg(arg)); }, KFR_BAD_SPEC), "field `call.args[0].value`: another number than `bits`") << value;
  }
  read(with_arg(R"({"name": "a", "kind": "float", "value": "nan", "bits": "7ff8000000000001"})"));
}

TEST(Call, InPlaceFormsEndWithTheAliasedSlot) {
  Call call = read(R"({"overload": "aten::relu_", "args": [)" + tensor_json("self", {2}) +
                   R"(], "outputs": [{"dtype": "float32", "sizes": [2], "strides": [1], "alias": 0}]})");
  ASSERT_GE(call.words.size(), 2u);
  EXPECT_EQ(call.words[call.words.size() - 2], CallWords::kAlias);
  EXPECT_EQ(call.words.back(), 0);
  EXPECT_EQ(call.outputs[0].alias, 0);
}

TEST(Call, ListElementsAreSlotsAndHaveNames) {
  Call call =
      read(with_arg(R"({"name": "tensors", "kind": "tensors", "items": [)" + tensor_json("", {2}) + "," + tensor_json("", {5}) + "]}"));
  ASSERT_EQ(call.inputs.size(), 2u);
  EXPECT_EQ(call.inputs[1].name, "tensors_1");
  EXPECT_EQ(call.names.value("tensors_count"), 2);
  EXPECT_EQ(call.names.value("tensors_1_size0"), 5);
}

TEST(Call, RefusalsNameTheField) {
  std::string good = doc_example("call");
  const char* cases[][3] = {
      {"\"dtype\": \"float32\", \"sizes\": [4, 64, 112", "\"dtype\": \"complex64\", \"sizes\": [4, 64, 112", "field `call.args[0].dtype`"},
      {"[4, 64, 112, 112]", "[4, 0, 112, 112]", "field `call.args[0].sizes[1]` is 0"},
      {"[802816, 12544, 112, 1]", "[802816, 12544, 112]", "field `call.args[0].strides`"},
      {"[802816, 12544, 112, 1]", "[802816, -1, 112, 1]", "field `call.args[0].strides[1]` is -1"},
      {"[802816, 12544, 112, 1]", "[9223372036854775807, 12544, 112, 1]", "field `call.args[0].strides[0]`"},
      {"[4, 64, 112, 112]", "[281474976710656, 281474976710656, 112, 112]", "spans more than 2^48"},
      {"\"kind\": \"tensor\"", "\"kind\": \"sparse\"", "field `call.args[0].kind`"},
      {"\"kind\": \"tensor\"", "\"kind\": \"tensor\", \"extra\": 1", "unknown field `extra`"},
      {"\"name\": \"self\"", "\"name\": \"se lf\"", "field `call.args[0].name`"},
      {"\"kind\": \"bool\", \"value\": true", "\"kind\": \"bool\", \"value\": 1", "field `call.args[5].value` is 1"},
      {"\"kind\": \"bool\", \"value\": true", "\"kind\": \"bool\"", "missing field `value`"},
      {"\"alias\": -1", "\"alias\": 1", "field `call.outputs[0].alias` is 1"},
      {"\"alias\": -1", "\"alias\": 0", "another dtype, sizes or strides"},
      {"[200704, 3136, 56, 1]", "[200704, 3136, 56, 0]", "several elements in one place"},
      {"\"value\": [3, 3]", "\"value\": [3, 3.5]", "field `call.args[1].value[1]`"},
      {"\"overload\": ", "\"overlord\": ", "missing field `overload`"},
  };
  for (auto& [old, fresh, expected] : cases) {
    std::string error = error_of([&] { read(replaced(good, old, fresh)); }, KFR_BAD_SPEC);
    EXPECT_NE(error.find(expected), std::string::npos) << fresh << ": " << error;
  }
}

TEST(Call, BitsAreSixteenDigits) {
  for (const char* bits : {"3ff", "3ff00000000000000", "3ff000000000000g", "0x3ff0000000000"}) {
    std::string arg = R"({"name": "a", "kind": "float", "value": 1.0, "bits": ")" + std::string(bits) + "\"}";
    EXPECT_NE(error_of([&] { read(with_arg(arg)); }, KFR_BAD_SPEC).find("field `call.args[0].bits`"), std::string::npos) << bits;
  }
}

TEST(Call, ACallWithTooManyWordsHasNoGuard) {
  std::string list = "0";
  for (int i = 0; i < 150; ++i) list += ", 0";
  std::string ints = R"({"name": "a", "kind": "ints", "value": [)" + list + "]}";
  read(with_arg(ints));
  EXPECT_NE(error_of([&] { read(with_arg(ints + "," + replaced(ints, "\"a\"", "\"b\""))); }, KFR_BAD_SPEC).find("more than 192 words"),
            std::string::npos);
}

// A batch norm in evaluation returns empty statistics beside its result.
TEST(Call, AnAllocatedOutputMayBeEmpty) {
  std::string empty = R"({"dtype": "float32", "sizes": [0], "strides": [1], "alias": -1})";
  Call call = read(replaced(doc_example("call"), "\"outputs\": [", "\"outputs\": [" + empty + ", "));
  ASSERT_EQ(call.outputs.size(), 3u);
  EXPECT_EQ(call.outputs[0].numel, 0);
  EXPECT_EQ(call.outputs[0].span_bytes, 0u);
  EXPECT_EQ(call.names.value("out0_numel"), 0);
  EXPECT_EQ(call.names.value("out1_size1"), 64);
}

TEST(Call, ACallNeedsAnOutput) {
  EXPECT_NE(error_of([] { read(R"({"overload": "aten::x", "args": [], "outputs": []})"); }, KFR_BAD_SPEC).find("at least one output"),
            std::string::npos);
}

}  // namespace
}  // namespace kf
