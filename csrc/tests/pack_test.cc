// pack_test.cc: packs opened, and every way in which one is refused.
#include "pack.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "sha256.h"
#include "support.h"

namespace kf {
namespace {

using namespace testing;
namespace fs = std::filesystem;

const char* const kPins =
    R"({"torch": "2.15.0+cpu", "device": "AMD EPYC avx512", "threads": 2, "runtime": "1", "toolchain": "g++ 12.2.0"})";

// A plan of a pack around plan_json.
std::string pack_plan(const std::string& id, const std::vector<int64_t>& sizes, const std::string& state, const std::string& image,
                      const std::string& source) {
  std::string own = R"("exact": true, "card": "c-3f2a9c1d", "variant": "v0", "node": 12, "state": ")" + state +
                    R"(", "code": {"sha256": ")" + sha256_hex(image) + R"(", "bytes": )" + std::to_string(image.size()) +
                    R"(}, "source": {"sha256": ")" + sha256_hex(source) + R"(", "bytes": )" + std::to_string(source.size()) +
                    R"(}, "evidence": {"ratio": 3.1, "rule": 1})";
  return replaced(plan_json(id, sizes), "\"exact\": true", own);
}

class Pack : public ::testing::Test {
 protected:
  void SetUp() override {
    write(pack_json(pack_plan("p-1", {8}, "approved", image_, source_) + "," + pack_plan("p-2", {9}, "proposed", image_, source_)));
    folder_.write("code/" + sha256_hex(image_) + ".so", image_);
    folder_.write("source/" + sha256_hex(source_) + ".cc", source_);
  }
  std::string pack_json(const std::string& plans) {
    return R"({"digest": "", "schema": 1, "made": "2026-12-01T10:00:00Z", "target": "host", "pins": )" + std::string(kPins) +
           R"(, "plans": [)" + plans + "]}";
  }
  void write(const std::string& json) {
    json_ = json;
    folder_.write("pack.json", sealed_pack(json));
  }
  kfr_status open(const char* pins = kPins, int32_t device = KFR_HOST) {
    error_ = {};
    kfr_pack* pack = nullptr;
    kfr_status status = kfr_pack_open(folder_.path().c_str(), pins, pins == nullptr ? 0 : strlen(pins), device, &pack, &error_);
    EXPECT_EQ(status == KFR_OK, pack != nullptr);
    ids_.clear();
    size_t n = 0;
    kfr_plan* const* plans = kfr_pack_plans(pack, &n);
    for (size_t i = 0; i < n; ++i) ids_.push_back(plans[i]->id);
    kfr_pack_free(pack);
    return status;
  }
  void expect_refused(const std::string& expected, kfr_status status = KFR_BAD_PACK, const char* pins = kPins) {
    EXPECT_EQ(open(pins), status) << error_.text;
    EXPECT_NE(std::string(error_.text).find(expected), std::string::npos) << error_.text;
    EXPECT_EQ(std::string(error_.text).find("load pack `" + folder_.path() + "`: "), 0u) << error_.text;
  }
  std::string code() const { return folder_.path() + "/code/" + sha256_hex(image_) + ".so"; }

  TempFolder folder_;
  std::string image_ = scale_image(), source_ = "// source\n", json_;
  kfr_error error_{};
  std::vector<std::string> ids_;
};

TEST_F(Pack, OpensApprovedPlansAndSkipsProposedOnes) {
  ASSERT_EQ(open(), KFR_OK) << error_.text;
  EXPECT_EQ(ids_, std::vector<std::string>{"p-1"});
}

TEST_F(Pack, PublishedPlansOutliveThePack) {
  kfr_pack* pack = nullptr;
  ASSERT_EQ(kfr_pack_open(folder_.path().c_str(), kPins, strlen(kPins), KFR_HOST, &pack, nullptr), KFR_OK);
  size_t n = 0;
  kfr_plan* const* plans = kfr_pack_plans(pack, &n);
  static const kfr_plan* kept = plans[0];
  ASSERT_EQ(kfr_publish(plans, n, KFR_HOST, nullptr), KFR_OK);
  kfr_pack_free(pack);
  std::vector<int64_t> words = tensor_words({8});
  const kfr_plan* found = kfr_lookup(kfr_op_id("aten::relu"), KFR_HOST, words.data(), static_cast<uint32_t>(words.size()));
  EXPECT_EQ(found, kept);
  std::vector<float> x(8, 1), y(8);
  void* slots[] = {x.data(), y.data()};
  Pool pool;
  EXPECT_EQ(kfr_launch(found, slots, 2, &pool.parallel, nullptr, nullptr), KFR_OK);
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(kfr_publish(nullptr, 0, KFR_HOST, nullptr), KFR_OK);
}

TEST_F(Pack, TheDocumentsExampleHasTheShapeThatIsRead) {
  std::string doc = doc_example("plan and pack");
  std::string hash(64, 'a');
  for (int i = 0; i < 2; ++i) doc = replaced(doc, "\"sha256\": \"...\"", "\"sha256\": \"" + hash + "\"");
  std::vector<PackPlan> plans = read_pack(doc, nullptr, KFR_HOST);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].id, "p-77aa01bc");
  EXPECT_TRUE(plans[0].approved);
  EXPECT_EQ(plans[0].code.sha256, hash);
  // With the call and the spec of the same document it is a plan: the rest of its fields are read too.
  doc = replaced(doc, "\"call\": {}", "\"call\": " + doc_example("call"));
  doc = replaced(doc, "\"spec\": {}", "\"spec\": " + doc_example("spec"));
  plans = read_pack(doc, nullptr, KFR_HOST);
  std::string error = error_of([&] { make_plan(json::Node(plans[0].json, "plan", KFR_BAD_SPEC), scale_image(), KFR_HOST); }, KFR_BAD_CODE);
  EXPECT_NE(error.find("the image has another hash"), std::string::npos) << error;
}

TEST_F(Pack, EveryPinMustBeEqual) {
  EXPECT_EQ(open(nullptr), KFR_OK);
  expect_refused("pin `threads` is 2 in the pack (this process has 4)", KFR_BAD_PIN,
                 R"({"torch": "2.15.0+cpu", "device": "AMD EPYC avx512", "threads": 4, "runtime": "1", "toolchain": "g++ 12.2.0"})");
  EXPECT_NE(std::string(error_.hint).find("kernelforge verify"), std::string::npos);
  expect_refused("pin `torch` is `2.15.0+cpu` in the pack (this process has none)", KFR_BAD_PIN, "{}");
  expect_refused("pin `runtime` is `1` in the pack (this process has 1)", KFR_BAD_PIN,
                 R"({"torch": "2.15.0+cpu", "device": "AMD EPYC avx512", "threads": 2, "runtime": 1, "toolchain": "g++ 12.2.0"})");
  std::string more = std::string(kPins).insert(1, "\"more\": \"x\", ");
  EXPECT_EQ(open(more.c_str()), KFR_OK);  // the process may know more than the pack asks
  expect_refused("read the pins of this process", KFR_BAD_ARGUMENT, "{");
  expect_refused("field `pins.x`", KFR_BAD_ARGUMENT, "{\"x\": 1.5}");
}

TEST_F(Pack, RefusalsNameTheField) {
  const char* cases[][3] = {
      {"\"schema\": 1, \"made\"", "\"schema\": 2, \"made\"", "field `pack.schema` is 2"},
      {"\"target\": \"host\"", "\"target\": \"cuda\"", "field `pack.target`"},
      {"\"made\": ", "\"maid\": ", "missing field `made`"},
      {"\"plans\": [", "\"more\": 1, \"plans\": [", "unknown field `more`"},
      {"\"threads\": 2, \"runtime\"", "\"runtime\"", "missing pin `threads`"},
      {"\"threads\": 2, \"runtime\"", "\"threads\": 3, \"runtime\"", "field `pack.plans[0].threads` is 2 (expected the pin `threads`, 3)"},
      {"\"state\": \"approved\"", "\"state\": \"served\"", "field `pack.plans[0].state`"},
      {"\"card\": \"c-3f2a9c1d\", ", "", "missing field `card`"},
      {"\"id\": \"p-2\"", "\"id\": \"p-1\"", "a second plan with the id `p-1`"},
      {"\"id\": \"p-2\"", "\"id\": \"p/2\"", "field `pack.plans[1].id`"},
      {"\"sha256\": \"", "\"sha256\": \"../../../../etc/passwd\", \"x\": \"", "field `pack.plans[0].code"},
      {"\"sha256\": \"", "\"sha256\": \"A", "field `pack.plans[0].code.sha256`"},
      {"\"bytes\": 10}", "\"bytes\": 99999999999}", "field `pack.plans[0].source.bytes`"},
  };
  std::string good = json_;
  for (auto& [old, fresh, expected] : cases) {
    write(replaced(good, old, fresh));
    expect_refused(expected, KFR_BAD_PACK, nullptr);
  }
  write("{");
  expect_refused("read pack.json: not the JSON");
  write(replaced(good, "\"plans\": [", "\"plans\": [{},"));
  expect_refused("field `pack.plans[0]`: missing field `id`");
}

TEST_F(Pack, APlanThatDoesNotFollowItsSchemaIsNamed) {
  write(replaced(json_, "\"work\": \"out0_numel\"", "\"work\": \"nothing\""));
  expect_refused("plan `p-1`: field `plan.spec.kernels[0].work`: evaluate `nothing`", KFR_BAD_SPEC);
}

TEST_F(Pack, DamagedFilesAreRefused) {
  std::string changed = image_;
  changed[changed.size() / 2] ^= 1;
  folder_.write("code/" + sha256_hex(image_) + ".so", changed);
  expect_refused("its content is not what pack.json recorded");
  folder_.write("code/" + sha256_hex(image_) + ".so", image_.substr(1));
  expect_refused("its content is not what pack.json recorded");
  folder_.write("code/" + sha256_hex(image_) + ".so", image_ + "x");
  expect_refused("expected at most");
  folder_.write("code/" + sha256_hex(image_) + ".so", image_);
  folder_.write("source/" + sha256_hex(source_) + ".cc", "// Source\n");
  expect_refused("its content is not what pack.json recorded");
}

TEST_F(Pack, OneFlippedBitOfTheDocumentIsRefused) {
  const std::string sealed = sealed_pack(json_);
  for (size_t at : {sealed.find("\"sizes\": [") + 10, sealed.find("out0_numel") + 3, sealed.find("\"ratio\": ") + 9, sealed.size() - 3}) {
    std::string flipped = sealed;
    flipped[at] ^= 1;
    folder_.write("pack.json", flipped);
    EXPECT_NE(open(), KFR_OK) << "byte " << at;
  }
  folder_.write("pack.json", replaced(sealed, "\"ratio\": 3.1", "\"ratio\": 3.2"));
  expect_refused("file `pack.json`: its digest is that of another text");
  folder_.write("pack.json", "\n" + replaced(sealed, "{\"digest\": \"", "{\"made\": \"x\", \"digest\": \""));
  EXPECT_EQ(open(), KFR_BAD_PACK);
  folder_.write("pack.json", sealed);
  EXPECT_EQ(open(), KFR_OK) << error_.text;
}

TEST_F(Pack, MissingFilesAreRefused) {
  fs::remove(code());
  expect_refused(".so`: No such file or directory");
  fs::remove_all(folder_.path() + "/code");
  expect_refused("folder `code`: No such file or directory");
  fs::remove(folder_.path() + "/pack.json");
  expect_refused("file `pack.json`: No such file or directory");
}

TEST_F(Pack, LinksPipesAndFoldersAreRefused) {
  fs::rename(code(), folder_.path() + "/elsewhere.so");
  fs::create_symlink(folder_.path() + "/elsewhere.so", code());
  expect_refused("it is a symbolic link");
  fs::remove(code());
  ASSERT_EQ(mkfifo(code().c_str(), 0600), 0);
  expect_refused("it is no regular file");
  fs::remove(code());
  fs::create_directory(code());
  expect_refused("it is no regular file");
  fs::rename(folder_.path() + "/code", folder_.path() + "/real");
  fs::create_directory_symlink(folder_.path() + "/real", folder_.path() + "/code");
  expect_refused("folder `code`: ");
  fs::rename(folder_.path() + "/pack.json", folder_.path() + "/real.json");
  fs::create_symlink(folder_.path() + "/real.json", folder_.path() + "/pack.json");
  expect_refused("file `pack.json`: it is a symbolic link");
}

TEST_F(Pack, WhatSomebodyElseMayWriteIsRefused) {
  const std::string parts[] = {folder_.path(), folder_.path() + "/pack.json", folder_.path() + "/code", code(), folder_.path() + "/source"};
  for (const std::string& part : parts) {
    fs::perms was = fs::status(part).permissions();
    fs::permissions(part, was | fs::perms::others_write);
    expect_refused("everybody may write to it");
    EXPECT_NE(std::string(error_.hint).find("chmod -R o-w"), std::string::npos);
    fs::permissions(part, was | fs::perms::group_write);  // of the user's own group, as umask 002 makes files
    EXPECT_EQ(open(), KFR_OK) << error_.text;
    fs::permissions(part, was);
  }
  if (geteuid() != 0) GTEST_SKIP() << "giving a file away needs root";
  for (const std::string& part : parts) {
    ASSERT_EQ(chown(part.c_str(), 4711, 4711), 0);
    expect_refused("it belongs to user 4711 (expected 0, or root)");
    EXPECT_NE(std::string(error_.hint).find("cp -r"), std::string::npos);
    ASSERT_EQ(chown(part.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(open(), KFR_OK) << error_.text;
}

TEST_F(Pack, ADigestThatTheCallerReadBeforeMustBeThatOfTheFile) {
  auto pins = [](const std::string& digest) { return std::string(kPins).insert(1, "\"digest\": \"" + digest + "\", "); };
  const std::string digest = sealed_pack(json_).substr(12, 64);
  EXPECT_EQ(open(pins(digest).c_str()), KFR_OK) << error_.text;
  for (const std::string& other : {std::string(64, 'a'), digest.substr(0, 10)})
    expect_refused("it is not the one that was read a moment ago", KFR_BAD_PACK, pins(other).c_str());
}

TEST_F(Pack, WhoMadeAndWhoApprovedAreForPeople) {
  write(replaced(replaced(json_, "\"target\"", "\"study\": \"net-0a1b\", \"target\""), "\"state\": \"approved\"",
                 "\"state\": \"approved\", \"approved_by\": \"ana\""));
  EXPECT_EQ(open(), KFR_OK) << error_.text;
  write(replaced(json_, "\"study\": \"net-0a1b\"", "\"study\": \"../net\""));
  expect_refused("field `pack.study`");
}

TEST_F(Pack, WhatIsNoPackIsRefused) {
  kfr_pack* pack = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_pack_open("/nowhere/x.kfpack", nullptr, 0, KFR_HOST, &pack, &error), KFR_BAD_PACK);
  EXPECT_STREQ(error.text, "load pack `/nowhere/x.kfpack`: No such file or directory (expected a folder with pack.json)");
  EXPECT_EQ(kfr_pack_open("/etc/hostname", nullptr, 0, KFR_HOST, &pack, &error), KFR_BAD_PACK);
  EXPECT_EQ(kfr_pack_open(nullptr, nullptr, 0, KFR_HOST, &pack, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_pack_open("x", nullptr, 0, KFR_HOST, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(open(kPins, 64), KFR_NO_DEVICE);
  EXPECT_EQ(open(kPins, 0), KFR_BAD_PACK) << "a pack for the host is none for a device, which stays closed";
  size_t n = 5;
  EXPECT_EQ(kfr_pack_plans(nullptr, &n), nullptr);
  EXPECT_EQ(n, 0u);
  kfr_pack_free(nullptr);
}

TEST_F(Pack, AnEmptyPackIsAPack) {
  write(pack_json(""));
  ASSERT_EQ(open(), KFR_OK) << error_.text;
  EXPECT_TRUE(ids_.empty());
}

}  // namespace
}  // namespace kf
