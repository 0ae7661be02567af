// abi_test.cc: the boundary itself: version, words, errors that fit their buffer, and what the shared library exports.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <sstream>

#include "error.h"
#include "support.h"
#include "words.h"

namespace kf {
namespace {

using namespace testing;

TEST(Abi, ElementTypesHaveNamesNumbersAndSizes) {
  const struct {
    const char* name;
    int32_t id;
    size_t size;
  } types[] = {{"bool", KFR_BOOL, 1}, {"uint8", KFR_U8, 1},    {"int8", KFR_I8, 1},       {"int16", KFR_I16, 2},   {"int32", KFR_I32, 4},
               {"int64", KFR_I64, 8}, {"float16", KFR_F16, 2}, {"bfloat16", KFR_BF16, 2}, {"float32", KFR_F32, 4}, {"float64", KFR_F64, 8}};
  for (auto& t : types) {
    EXPECT_EQ(kfr_dtype_from_name(t.name), t.id) << t.name;
    EXPECT_EQ(kfr_dtype_size(t.id), t.size) << t.name;
  }
  EXPECT_EQ(KFR_F32, 9);  // part of every pack's guards
  for (const char* name : {"", "float", "Float32", "float32 ", "complex64"}) EXPECT_EQ(kfr_dtype_from_name(name), 0) << name;
  EXPECT_EQ(kfr_dtype_from_name(nullptr), 0);
  for (int32_t id : {0, -1, 11, 1 << 20}) EXPECT_EQ(kfr_dtype_size(id), 0u);
}

TEST(Abi, OverloadIdsAreDenseAndStable) {
  int32_t a = kfr_op_id("aten::abi_test_a"), b = kfr_op_id("aten::abi_test_b");
  EXPECT_EQ(b, a + 1);
  EXPECT_EQ(kfr_op_id("aten::abi_test_a"), a);
  EXPECT_EQ(op_name(a), "aten::abi_test_a");
  EXPECT_EQ(op_name(-1), "");
  for (const char* name : {"", "aten relu", "aten::relu\n", "\xff"}) EXPECT_EQ(kfr_op_id(name), -1) << name;
  EXPECT_EQ(kfr_op_id(nullptr), -1);
  EXPECT_EQ(kfr_op_id(std::string(200, 'a').c_str()), -1);
}

using AbiDeathTest = ::testing::Test;

TEST(AbiDeathTest, RunningOutOfOverloadIdsIsMinusOne) {  // in a process of its own: ids are for life
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto fill_up = [] {
    int32_t last = 0;
    for (int i = 0; i < KFR_MAX_OPS && last >= 0; ++i) last = kfr_op_id(("aten::full_" + std::to_string(i)).c_str());
    exit(kfr_op_id("aten::one_more") == -1 && kfr_op_id("aten::full_0") >= 0 ? 7 : 1);
  };
  EXPECT_EXIT(fill_up(), ::testing::ExitedWithCode(7), "");
}

TEST(Abi, LongErrorsAreCutAtACharacter) {
  kfr_error error;
  std::memset(&error, 'x', sizeof error);
  std::string text = "a";
  while (text.size() < 2000) text += "\xc3\xa9";
  fill(&error, KFR_BAD_SPEC, text, text);
  EXPECT_EQ(error.code, KFR_BAD_SPEC);
  EXPECT_EQ(std::strlen(error.text), 767u);
  EXPECT_EQ(std::strlen(error.hint), 255u);
  EXPECT_EQ(static_cast<unsigned char>(error.text[766]), 0xa9);
  fill(&error, KFR_BAD_SPEC, "b" + text, "");
  EXPECT_EQ(std::strlen(error.text), 766u);  // one byte less rather than half a character
  EXPECT_STREQ(error.hint, "");
  fill(nullptr, KFR_BAD_SPEC, "x", "");
}

TEST(Abi, NamesInErrorsArePrintableUtf8) {
  EXPECT_EQ(ticked("kf_main"), "`kf_main`");
  EXPECT_EQ(ticked("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "`\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80`");
  EXPECT_EQ(ticked("a\n\x1b`\x7f"), "`a????`");
  for (const char* text : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\x80", "\xe2\x82"}) {
    std::string shown = ticked(text);
    EXPECT_EQ(shown, "`" + std::string(std::strlen(text), '?') + "`") << shown;
  }
  std::string cut = ticked(std::string(500, 'x'));
  EXPECT_LE(cut.size(), 100u);
  EXPECT_EQ(cut.substr(cut.size() - 4), "...`");
}

TEST(Abi, AnErrorIsUntouchedOnSuccess) {
  kfr_error error{42, "before", "hint"};
  int64_t result = 0;
  EXPECT_EQ(kfr_expr_eval("1", 1, nullptr, nullptr, 0, &result, &error), KFR_OK);
  EXPECT_EQ(error.code, 42);
  EXPECT_STREQ(error.text, "before");
}

TEST(Abi, HandlesMayBeNull) {
  kfr_plan_free(nullptr);
  kfr_pool_parallel(nullptr, nullptr);
  kfr_error error{};
  EXPECT_EQ(kfr_plan_create("{}", 2, "", 0, KFR_HOST, nullptr, &error), KFR_BAD_ARGUMENT);
  kfr_plan* plan = nullptr;
  EXPECT_EQ(kfr_plan_create(nullptr, 2, "", 0, KFR_HOST, &plan, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_plan_create("{}", 2, nullptr, 5, KFR_HOST, &plan, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_code_check(nullptr, 5, nullptr, 0, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_code_check("x", 1, nullptr, 1, &error), KFR_BAD_ARGUMENT);
  const char* none = nullptr;
  EXPECT_EQ(kfr_code_check("x", 1, &none, 1, &error), KFR_BAD_ARGUMENT);
}

// The functions that the header declares: every kfr_ name outside comments that an opening bracket follows.
std::set<std::string> declared() {
  std::string header = read_text(std::string(KF_DOCS) + "/../csrc/include/kf_runtime.h");
  for (size_t at; (at = header.find("/*")) != std::string::npos;) header.erase(at, header.find("*/", at) + 2 - at);
  std::set<std::string> names;
  for (size_t at = header.find("kfr_"); at != std::string::npos; at = header.find("kfr_", at + 1)) {
    size_t end = header.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at);
    if (header[end] == '(') names.insert(header.substr(at, end - at));
  }
  return names;
}

TEST(Abi, TheSharedLibraryExportsTheHeaderAndNothingElse) {
  TempFolder folder;
  std::string command = std::string("nm -D --defined-only ") + KF_SHARED + " > " + folder.path() + "/names";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::set<std::string> exported;
  std::istringstream lines(read_text(folder.path() + "/names"));
  for (std::string address, kind, name; lines >> address >> kind >> name;) exported.insert(name);
  EXPECT_EQ(exported, declared());
  EXPECT_GT(exported.size(), 30u);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Abi, TheSharedLibraryOpensAndSaysItsVersion) {
  void* library = dlopen(KF_SHARED, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto version = reinterpret_cast<uint32_t (*)()>(dlsym(library, "kfr_abi_version"));
  ASSERT_NE(version, nullptr);
  EXPECT_EQ(version(), KFR_ABI_VERSION);
  EXPECT_EQ(kfr_abi_version(), KFR_ABI_VERSION);
}

// The extension holds one copy of the runtime, libkfruntime.so is another: the loader must not take the images of one for the other's.
TEST(Abi, TwoCopiesOfTheRuntimeInOneProcessKeepTheirImagesApart) {
  void* library = dlopen(KF_SHARED, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto create = reinterpret_cast<decltype(&kfr_plan_create)>(dlsym(library, "kfr_plan_create"));
  auto launch = reinterpret_cast<decltype(&kfr_launch)>(dlsym(library, "kfr_launch"));
  auto release = reinterpret_cast<decltype(&kfr_plan_free)>(dlsym(library, "kfr_plan_free"));
  std::string image =
      build("KF_ENTRY void kf_main(int64_t b, int64_t e, const kf_arg* a) { for (; b < e; ++b) static_cast<float*>(a[1].p)[b] = 77; }");
  std::string json = plan_json("p-1", {8});
  PlanPtr ours = make(json, scale_image());
  std::vector<float> x(8, 1), y(8);
  void* slots[] = {x.data(), y.data()};
  Pool pool;
  for (int i = 0; i < 1500; ++i) {  // the other copy's count of images passes ours on the way
    kfr_plan* theirs = nullptr;
    ASSERT_EQ(create(json.data(), json.size(), image.data(), image.size(), KFR_HOST, &theirs, nullptr), KFR_OK);
    ASSERT_EQ(launch(theirs, slots, 2, &pool.parallel, nullptr, nullptr), KFR_OK);
    ASSERT_EQ(y[0], 77) << i;
    release(theirs);
  }
}
#endif

}  // namespace
}  // namespace kf
