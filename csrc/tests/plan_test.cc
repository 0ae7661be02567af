// plan_test.cc: plans made, asked, launched and refused through the C functions.
#include "plan.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "kf_call.h"
#include "sha256.h"
#include "support.h"

namespace kf {
namespace {

using namespace testing;

TEST(Plan, ComputesWhatItsKernelSays) {
  PlanPtr plan = make(plan_json("p-1", {3, 50}), scale_image());
  std::vector<float> x(150), y(150, -1);
  std::iota(x.begin(), x.end(), 0.0f);
  void* slots[] = {x.data(), y.data()};
  Pool pool;
  kfr_error error{};
  ASSERT_EQ(kfr_launch(plan.get(), slots, 2, &pool.parallel, nullptr, &error), KFR_OK) << error.text;
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 2 * x[i] + 1) << i;
}

TEST(Plan, TellsWhatTheCallerMustProvide) {
  std::string json = replaced(plan_json("p-2", {3, 50}), R"("workspaces": [])",
                              R"("workspaces": [{"bytes": "100", "zeroed": true}, {"bytes": "threads", "zeroed": false}])");
  json = replaced(json, "\"align\": [16, 16]", "\"align\": [4, 64]");
  json = replaced(json, "\"exact\": true", "\"exact\": false");
  PlanPtr plan = make(json, scale_image());
  kfr_plan_info info{};
  ASSERT_EQ(kfr_plan_info_get(plan.get(), &info), KFR_OK);
  EXPECT_STREQ(info.id, "p-2");
  EXPECT_EQ(info.op, kfr_op_id("aten::relu"));
  EXPECT_EQ(info.device, KFR_HOST);
  EXPECT_EQ(info.inputs, 1u);
  EXPECT_EQ(info.outputs, 1u);
  EXPECT_EQ(info.workspaces, 2u);
  EXPECT_EQ(info.align[0], 4u);
  EXPECT_EQ(info.align[1], 64u);
  EXPECT_EQ(info.workspace_bytes[0], 100u);
  EXPECT_EQ(info.workspace_bytes[1], 2u);
  EXPECT_EQ(info.workspace_zeroed[0], 1);
  EXPECT_EQ(info.workspace_zeroed[1], 0);
  EXPECT_EQ(info.deterministic, 1);
  EXPECT_EQ(info.exact, 0);
  kfr_output out{};
  ASSERT_EQ(kfr_plan_output(plan.get(), 0, &out), KFR_OK);
  EXPECT_EQ(out.dtype, KFR_F32);
  EXPECT_EQ(out.dim, 2);
  EXPECT_EQ(out.alias, -1);
  EXPECT_EQ(out.sizes[1], 50);
  EXPECT_EQ(out.strides[0], 50);
  EXPECT_EQ(kfr_plan_output(plan.get(), 1, &out), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_plan_info_get(nullptr, &info), KFR_BAD_ARGUMENT);
}

TEST(Plan, KernelsRunInOrderWithClearedWorkspaces) {
  std::string image = build(R"(
KF_ENTRY void kf_count(int64_t begin, int64_t end, const kf_arg* a) {  // ws[i] += x[i]
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(a[1].p)[i] += static_cast<const float*>(a[0].p)[i];
}
KF_ENTRY void kf_copy(int64_t begin, int64_t end, const kf_arg* a) {   // y[i] = ws[n - 1 - i]: needs all of kf_count
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(a[1].p)[i] = static_cast<const float*>(a[0].p)[a[2].i - 1 - i];
})");
  std::string json =
      replaced(plan_json("p-3", {64}), R"("workspaces": [])", R"("workspaces": [{"bytes": "self_numel * 4", "zeroed": true}])");
  size_t at = json.find("\"kernels\"");
  json = json.substr(0, at) + R"("kernels": [
    {"entry": "kf_count", "work": "self_numel", "grain": "1", "args": [{"slot": "self"}, {"slot": "ws0"}]},
    {"entry": "kf_copy", "work": "self_numel", "grain": "1", "args": [{"slot": "ws0"}, {"slot": "out0"}, {"int": "self_numel"}]}]})" +
         json.substr(json.find(",\n         \"threads\""));
  PlanPtr plan = make(json, image);
  std::vector<float> x(64), y(64), ws(64, 1000);
  std::iota(x.begin(), x.end(), 0.0f);
  void* slots[] = {x.data(), y.data(), ws.data()};
  Pool pool;
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(kfr_launch(plan.get(), slots, 3, &pool.parallel, nullptr, nullptr), KFR_OK);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 63 - static_cast<float>(i)) << run;
  }
}

TEST(Plan, ItsCodeIsNamedInTheProcessMap) {
  PlanPtr plan = make(plan_json("p-named", {8}), scale_image());
  EXPECT_NE(read_text("/proc/self/maps").find("memfd:kernelforge-p-named"), std::string::npos);
  plan.reset();
  EXPECT_EQ(read_text("/proc/self/maps").find("memfd:kernelforge-p-named"), std::string::npos);
}

TEST(Plan, AnInPlacePlanWritesItsInput) {
  std::string json = replaced(plan_json("p-4", {40}, "aten::relu_"), "\"alias\": -1", "\"alias\": 0");
  PlanPtr plan = make(json, scale_image());
  std::vector<float> x(40, 3);
  void* slots[] = {x.data(), nullptr};  // the output's own slot is not read
  Pool pool;
  ASSERT_EQ(kfr_launch(plan.get(), slots, 2, &pool.parallel, nullptr, nullptr), KFR_OK);
  EXPECT_EQ(x, std::vector<float>(40, 7));
}

TEST(Plan, TwoPlansOfOneImageAreApart) {
  PlanPtr a = make(plan_json("p-5", {8}), scale_image());
  PlanPtr b = make(replaced(plan_json("p-6", {8}), "0x1p+1", "3"), scale_image());
  a.reset();  // unloading one leaves the other
  std::vector<float> x(8, 1), y(8);
  void* slots[] = {x.data(), y.data()};
  Pool pool;
  ASSERT_EQ(kfr_launch(b.get(), slots, 2, &pool.parallel, nullptr, nullptr), KFR_OK);
  EXPECT_EQ(y[0], 4);
}

TEST(Plan, DescriptorNumbersMayRepeatBetweenImages) {
  std::string other =
      build(R"(KF_ENTRY void kf_main(int64_t b, int64_t e, const kf_arg* a) { for (; b < e; ++b) static_cast<float*>(a[1].p)[b] = 77; })");
  PlanPtr a = make(plan_json("p-7", {8}), scale_image());  // its descriptor is closed again, and the next image gets that number
  PlanPtr b = make(plan_json("p-8", {8}), other);
  std::vector<float> x(8, 1), y(8);
  void* slots[] = {x.data(), y.data()};
  Pool pool;
  ASSERT_EQ(kfr_launch(b.get(), slots, 2, &pool.parallel, nullptr, nullptr), KFR_OK);
  EXPECT_EQ(y[0], 77);
  ASSERT_EQ(kfr_launch(a.get(), slots, 2, &pool.parallel, nullptr, nullptr), KFR_OK);
  EXPECT_EQ(y[0], 3);
}

TEST(Plan, LaunchIsRefusedBeforeAnyKernelRuns) {
  PlanPtr plan = make(plan_json("p-9", {8}), scale_image());
  std::vector<float> x(8, 1), y(8, -5);
  void* slots[] = {x.data(), y.data()};
  void* holes[] = {x.data(), nullptr};
  Pool pool, three(3);
  kfr_error error{};
  EXPECT_EQ(kfr_launch(plan.get(), slots, 3, &pool.parallel, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_STREQ(error.text, "launch `p-9`: 3 slots (expected 2)");
  EXPECT_EQ(kfr_launch(plan.get(), holes, 2, &pool.parallel, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_STREQ(error.text, "launch `p-9`: slot 1 is NULL");
  EXPECT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_launch(plan.get(), slots, 2, &three.parallel, nullptr, &error), KFR_LAUNCH);
  EXPECT_STREQ(error.text, "launch `p-9`: the plan was judged with 2 threads (this call has 3)");
  EXPECT_EQ(kfr_launch(nullptr, slots, 2, &pool.parallel, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_launch(plan.get(), nullptr, 2, &pool.parallel, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(y, std::vector<float>(8, -5));
}

TEST(Plan, RefusalsNameTheField) {
  const char* cases[][3] = {
      {"\"id\": \"p-1\"", "\"id\": \"../p\"", "field `plan.id`"},
      {"\"id\": \"p-1\"", "\"id\": \"\"", "field `plan.id`"},
      {"\"threads\": 2", "\"threads\": 0", "field `plan.threads` is 0 (expected an integer from 1 to 4096)"},
      {"\"threads\": 2, ", "", "missing field `threads`"},
      {"\"align\": [16, 16]", "\"align\": [16]", "field `plan.align`"},
      {"\"align\": [16, 16]", "\"align\": [16, 24]", "field `plan.align[1]` is 24 (expected a power of two)"},
      {"\"align\": [16, 16]", "\"align\": [16, 0]", "field `plan.align[1]`"},
      {"\"exact\": true", "\"exact\": true, \"state\": \"live\"", "field `plan.state`"},
      {"\"exact\": true", "\"exact\": true, \"evidence\": []", "field `plan.evidence`"},
      {"\"exact\": true", "\"exact\": true, \"node\": -1", "field `plan.node`"},
      {"\"exact\": true", "\"exact\": true, \"more\": 1", "unknown field `more`"},
      {"\"overload\": \"aten::relu\"", "\"overload\": \"aten relu\"", "`aten relu` is no overload name"},
      {"\"deterministic\": true, ", "", "missing field `deterministic`"},
  };
  for (auto& [old, fresh, expected] : cases) {
    kfr_status status = std::string(expected).find("overload name") != std::string::npos ? KFR_BAD_ARGUMENT : KFR_BAD_SPEC;
    std::string error = refusal(replaced(plan_json("p-1", {8}), old, fresh), scale_image(), status);
    EXPECT_NE(error.find(expected), std::string::npos) << fresh << ": " << error;
    EXPECT_EQ(error.find("make a plan: "), 0u) << error;
  }
  EXPECT_NE(refusal("{", scale_image(), KFR_BAD_SPEC).find("make a plan: not the JSON"), std::string::npos);
  EXPECT_NE(refusal(plan_json("p-1", {8}), "", KFR_BAD_CODE).find("empty"), std::string::npos);
}

TEST(Plan, APlanThatFailsUsesUpNoOverloadId) {
  int32_t before = kfr_op_id("aten::probe_before");
  refusal(plan_json("p-1", {8}, "aten::never_made"), "", KFR_BAD_CODE);
  EXPECT_EQ(kfr_op_id("aten::probe_after"), before + 1);
}

TEST(Plan, OptionalFieldsOfPacksAreAccepted) {
  std::string image = scale_image();
  std::string more =
      R"("exact": true, "card": "c-1", "variant": "v0", "node": 3, "state": "proposed", "evidence": {"ratio": 2}, "code": {"sha256": ")" +
      sha256_hex(image) + "\", \"bytes\": " + std::to_string(image.size()) + "}";
  make(replaced(plan_json("p-1", {8}), "\"exact\": true", more), image);
  std::string changed = image;
  changed.back() ^= 1;  // in the section headers, which nothing loads
  EXPECT_NE(refusal(replaced(plan_json("p-1", {8}), "\"exact\": true", more), changed, KFR_BAD_CODE).find("another hash"),
            std::string::npos);
}

TEST(Plan, AnotherDeviceIsRefusedWithWords) {
  EXPECT_EQ(refusal(plan_json("p-1", {8}), scale_image(), KFR_NO_DEVICE, 64),
            "make a plan: device 64: no such ordinal (expected -1 for the host, or 0, 1, ... for CUDA)");
  EXPECT_EQ(refusal(plan_json("p-1", {8}), scale_image(), KFR_NO_DEVICE, -2),
            "make a plan: device -2: no such ordinal (expected -1 for the host, or 0, 1, ... for CUDA)");
}

TEST(Plan, TheImageMustHoldTheEntries) {
  std::string error = refusal(replaced(plan_json("p-1", {8}), "\"kf_main\"", "\"kf_other\""), scale_image(), KFR_BAD_CODE);
  EXPECT_NE(error.find("exports `kf_main`, which is no entry"), std::string::npos) << error;
}

}  // namespace
}  // namespace kf
