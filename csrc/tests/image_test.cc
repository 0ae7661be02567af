// image_test.cc: images that a compiler makes: good ones pass, each rule has an image that breaks it.
#include "image.h"

#include <gtest/gtest.h>

#include "support.h"

namespace kf {
namespace {

using namespace testing;

std::string check(const std::string& image, std::vector<const char*> entries = {"kf_main"}) {
  kfr_error error{};
  kfr_status status = kfr_code_check(image.data(), image.size(), entries.data(), entries.size(), &error);
  if (status == KFR_OK) return "";
  EXPECT_EQ(status, KFR_BAD_CODE) << error.text;
  return error.text;
}

const char* const kEmpty = "KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg*) {}";

TEST(Image, AKernelPasses) {
  EXPECT_EQ(check(scale_image()), "");
  EXPECT_EQ(check(build(kEmpty)), "");
}

TEST(Image, MathAndMemoryFunctionsMayBeImported) {
  EXPECT_EQ(check(build(R"(
KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* a) {
  float* y = static_cast<float*>(a[0].p);
  __builtin_memset(y, 0, static_cast<unsigned long>(a[1].i));
  __builtin_memmove(y + 1, y, static_cast<unsigned long>(a[1].i));
  for (int64_t i = begin; i < end; ++i) y[i] = expf(y[i]) + tanhf(y[i]) + static_cast<float>(erf(y[i])) + powf(y[i], 3.5f);
})")),
            "");
}

TEST(Image, SeveralEntriesAndConstantTablesPass) {
  std::string image = build(R"(
static const float* const rows[2] = {(const float[]){1, 2}, (const float[]){3, 4}};  // pointers: relocated, then read-only
KF_ENTRY void kf_a(int64_t b, int64_t, const kf_arg* a) { *static_cast<float*>(a[0].p) = rows[b & 1][0]; }
KF_ENTRY void kf_b(int64_t b, int64_t, const kf_arg* a) { *static_cast<float*>(a[0].p) = rows[b & 1][1]; }
)");
  EXPECT_EQ(check(image, {"kf_a", "kf_b"}), "");
  EXPECT_EQ(check(image, {"kf_b", "kf_a", "kf_a"}), "");
  EXPECT_NE(check(image, {"kf_a"}).find("exports `kf_b`, which is no entry"), std::string::npos);
  EXPECT_NE(check(image, {"kf_a", "kf_b", "kf_c"}).find("no function `kf_c` is exported"), std::string::npos);
}

TEST(Image, EntriesAreReturnedInOrderAsOffsetsIntoTheCode) {
  std::string image =
      build("KF_ENTRY void kf_a(int64_t, int64_t, const kf_arg*) {} KF_ENTRY void kf_b(int64_t, int64_t, const kf_arg*) {}");
  auto ab = check_host_image(image, {"kf_a", "kf_b"}), ba = check_host_image(image, {"kf_b", "kf_a"});
  EXPECT_NE(ab[0], ab[1]);
  EXPECT_EQ(ab[0], ba[1]);
  EXPECT_EQ(ab[1], ba[0]);
}

struct Bad {
  const char* what;
  const char* source;
  const char* flags;
  const char* expected;
};

class BadImage : public ::testing::TestWithParam<Bad> {};

TEST_P(BadImage, IsRefusedWithItsRule) {
  const Bad& bad = GetParam();
  std::string error = check(build(std::string(bad.source) + kEmpty, bad.flags));
  EXPECT_NE(error.find(bad.expected), std::string::npos) << bad.what << ": " << error;
}

INSTANTIATE_TEST_SUITE_P(
    Image, BadImage,
    ::testing::Values(
        Bad{"constructor", "__attribute__((constructor)) void start() { __builtin_trap(); }\n", "", "static constructor"},
        Bad{"static_object", "struct S { S(); volatile int v; }; S::S() { v = 1; } static S s;\n", "", "static constructor"},
        Bad{"destructor", "__attribute__((destructor)) void stop() { __builtin_trap(); }\n", "", "static destructor"},
        Bad{"init_function", "extern \"C\" void boot() {}\n", "-Wl,-init=boot", "static constructor"},
        Bad{"fini_function", "extern \"C\" void halt() {}\n", "-Wl,-fini=halt", "static destructor"},
        Bad{"tls", "static thread_local int n; __attribute__((used)) int bump() { return ++n; }\n", "", "thread-local"},
        Bad{"export_function", "KF_ENTRY void kf_more() {}\n", "", "exports `kf_more`"},
        Bad{"export_data", "KF_ENTRY const int kf_data = 5; __attribute__((used)) const int* where() { return &kf_data; }\n", "",
            "exports `kf_data`"},
        Bad{"system", "extern \"C\" int system(const char*); __attribute__((used)) void go() { system(\"true\"); }\n", "",
            "imports `system`"},
        Bad{"weak_import",
            "extern \"C\" __attribute__((weak)) int getpid(); __attribute__((used)) int go() { return getpid ? getpid() : 0; }\n", "",
            "imports `getpid`"},
        Bad{"malloc", "extern \"C\" void* malloc(unsigned long); __attribute__((used)) void* go() { return malloc(5); }\n", "",
            "imports `malloc`"},
        Bad{"ifunc",
            "extern \"C\" { static void one() {} static void* pick() { return (void*)one; } static void both() "
            "__attribute__((ifunc(\"pick\"))); }\n"
            "__attribute__((used)) void go() { both(); }\n",
            "", "indirect function"},
        Bad{"execstack", "", "-Wl,-z,execstack", "executable stack"},
        Bad{"counter", "static int calls; __attribute__((used)) int count() { return ++calls; }\n", "", "writable variables"},
        Bad{"table", "static int table[4] = {1, 2, 3, 4}; __attribute__((used)) int* where() { return table; }\n", "",
            "writable variables"},
        Bad{"no_relro", "", "-Wl,-z,norelro", "writable variables"},
        Bad{"lazy", "__attribute__((used)) float go(float x) { return expf(x); }\n", "-Wl,-z,lazy", "writable variables"},
        Bad{"soname", "", "-Wl,-soname,libm.so.6", "names itself"}, Bad{"rpath", "", "-Wl,-rpath,/tmp", "search path"},
        Bad{"library", "", "-Wl,--no-as-needed -lresolv", "needs the library `libresolv.so.2`"},
        Bad{"auxiliary", "", "-Wl,-f,libevil.so", "which no kernel needs"}, Bad{"rwx", "", "-Wl,-N -nostdlib", "writable and executable"},
        Bad{"sysv_hash", "", "-Wl,--hash-style=sysv", "GNU hash table"}),
    [](const auto& param) { return param.param.what; });

TEST(Image, WhatIsNoSharedObjectIsRefused) {
  EXPECT_NE(check("").find("outside the file"), std::string::npos);
  EXPECT_NE(check("int main() {}").find("outside the file"), std::string::npos);
  EXPECT_NE(check(std::string(4096, 'x')).find("no ELF file"), std::string::npos);
  EXPECT_NE(check(read_text("/proc/self/exe")).find("check the image"), std::string::npos);
  EXPECT_NE(check(build(kEmpty, "-c")).find("not a shared object"), std::string::npos);
  EXPECT_NE(check(std::string(kImageBytesMax + 1, '\x7f')).find("expected at most"), std::string::npos);
}

TEST(Image, ImportsAreAnAllowList) {
  for (const char* name : {"expf", "exp", "fmaf", "sincosf", "memcpy", "lgammaf_r", "atan2f", "__stack_chk_fail"})
    EXPECT_TRUE(allowed_import(name)) << name;
  for (const char* name :
       {"",        "f",       "system", "open",    "mmap",  "syscall", "dlsym",          "dlopen",         "malloc",
        "free",    "printf",  "getenv", "memcpyf", "expff", "exit",    "pthread_create", "__cxa_finalize", "__tls_get_addr",
        "environ", "signgam", "lgamma"}) {
    EXPECT_FALSE(allowed_import(name)) << name;
  }
}

// The tests of the judge need to see what only these rules keep out. In a process of its own: it cannot be taken back.
TEST(ImageDeath, ATestMayHaveTheRulesLeftOut) {
  std::string image = testing::build(
      std::string() + "static int calls; KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* args) { *(int*)args[1].p = ++calls; }\n");
  std::string json = testing::plan_json("p-1", {8});
  testing::refusal(json, image, KFR_BAD_CODE);
  auto without = [&] {
    kfr_images_unchecked();
    kfr_plan* plan = nullptr;
    std::_Exit(kfr_plan_create(json.data(), json.size(), image.data(), image.size(), KFR_HOST, &plan, nullptr) == KFR_OK ? 0 : 1);
  };
  EXPECT_EXIT(without(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kf
