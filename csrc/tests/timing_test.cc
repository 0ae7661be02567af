// timing_test.cc: how often and on which sets a plan runs, not how long: durations are only held to be possible.
#include <gtest/gtest.h>

#include <vector>

#include "support.h"

namespace kf {
namespace {

using namespace testing;

// Adds 1 to counter[0] of its input and writes y; one range a launch.
std::string counting_image() {
  return build(R"(
KF_ENTRY void kf_main(int64_t begin, int64_t, const kf_arg* a) {
  if (begin == 0) static_cast<float*>(a[0].p)[0] += 1;
  static_cast<float*>(a[1].p)[begin] = 5;
})");
}

TEST(Timing, RunsSamplesTimesInnerRoundRobinAfterOneWarmUp) {
  PlanPtr plan = make(plan_json("p-1", {8}), counting_image());
  std::vector<float> x[3] = {std::vector<float>(8), std::vector<float>(8), std::vector<float>(8)}, y(8);
  void* sets[] = {x[0].data(), y.data(), x[1].data(), y.data(), x[2].data(), nullptr};
  std::vector<double> ns(4, -1);
  Pool pool;
  kfr_error error{};
  ASSERT_EQ(kfr_time_plan(plan.get(), sets, 3, 2, 4, 5, 1, &pool.parallel, nullptr, ns.data(), &error), KFR_OK) << error.text;
  // 3 warm launches, then 20: sets 0 and 1 get 7 of them, set 2 gets 6.
  EXPECT_EQ(x[0][0], 8);
  EXPECT_EQ(x[1][0], 8);
  EXPECT_EQ(x[2][0], 7);
  for (double v : ns) EXPECT_GT(v, 0);
  ASSERT_EQ(kfr_time_plan(plan.get(), sets, 3, 2, 1, 1, 0, &pool.parallel, nullptr, ns.data(), &error), KFR_OK);
  EXPECT_EQ(x[0][0], 9);
  EXPECT_EQ(x[1][0], 8);
}

TEST(Timing, AllocatesMissingOutputsAndWorkspacesAlignedEachTime) {
  std::string image = build(R"(
KF_ENTRY void kf_main(int64_t, int64_t, const kf_arg* a) {
  float* x = static_cast<float*>(a[0].p);
  x[0] = static_cast<float>(a[1].i % 64 + a[2].i % 64);        // both 64-byte aligned
  static_cast<char*>(a[1].p)[4 * 8 - 1] = 1;                    // all of the output
  static_cast<char*>(a[2].p)[1000 - 1] = 1;                     // all of the workspace
})");
  std::string json = replaced(plan_json("p-1", {8}), R"("workspaces": [])", R"("workspaces": [{"bytes": "1000", "zeroed": true}])");
  json = replaced(json, R"({"float": "0x1p+1"})", R"({"slot": "ws0"})");
  json = replaced(json, R"("grain": "16")", R"("grain": "out0_numel")");
  PlanPtr plan = make(json, image);
  std::vector<float> x(8, -1);
  void* set[] = {x.data(), nullptr, nullptr};
  double ns[2] = {};
  Pool pool;
  ASSERT_EQ(kfr_time_plan(plan.get(), set, 1, 3, 2, 3, 1, &pool.parallel, nullptr, ns, nullptr), KFR_OK);
  EXPECT_EQ(x[0], 0);
}

TEST(Timing, RefusesWhatCannotBe) {
  PlanPtr plan = make(plan_json("p-1", {8}), counting_image());
  std::vector<float> x(8), y(8);
  void* set[] = {x.data(), y.data()};
  void* no_input[] = {nullptr, y.data()};
  double ns = 0;
  Pool pool, one(1);
  kfr_error error{};
  auto time = [&](void** sets, uint32_t nsets, uint32_t nslots, uint32_t samples, uint32_t inner, const kfr_parallel* p) {
    return kfr_time_plan(plan.get(), sets, nsets, nslots, samples, inner, 1, p, nullptr, &ns, &error);
  };
  EXPECT_EQ(time(set, 1, 3, 1, 1, &pool.parallel), KFR_BAD_ARGUMENT);
  EXPECT_EQ(time(set, 0, 2, 1, 1, &pool.parallel), KFR_BAD_ARGUMENT);
  EXPECT_EQ(time(set, 1, 2, 0, 1, &pool.parallel), KFR_BAD_ARGUMENT);
  EXPECT_EQ(time(set, 1, 2, 1, 0, &pool.parallel), KFR_BAD_ARGUMENT);
  EXPECT_EQ(time(nullptr, 1, 2, 1, 1, &pool.parallel), KFR_BAD_ARGUMENT);
  EXPECT_EQ(time(no_input, 1, 2, 1, 1, &pool.parallel), KFR_BAD_ARGUMENT);
  EXPECT_STREQ(error.text, "time `p-1`: input slot 0 is NULL");
  EXPECT_EQ(time(set, 1, 2, 1, 1, &one.parallel), KFR_LAUNCH);
  EXPECT_EQ(time(set, 1, 2, 1, 1, nullptr), KFR_BAD_ARGUMENT);
  EXPECT_EQ(x[0], 0);
  EXPECT_EQ(kfr_time_reference(KFR_HOST, nullptr, nullptr, 1, &ns, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_time_reference(KFR_HOST, &pool.parallel, nullptr, 0, &ns, &error), KFR_BAD_ARGUMENT);
}

TEST(Timing, TheReferenceKernelUsesEveryThreadAndTakesTime) {
  Pool pool(2);
  double ns[3] = {};
  ASSERT_EQ(kfr_time_reference(KFR_HOST, &pool.parallel, nullptr, 3, ns, nullptr), KFR_OK);
  for (double v : ns) EXPECT_GT(v, 1000);  // 8 MiB cannot move in a microsecond
}

TEST(Timing, TheClockDoesNotRunBackwards) {
  int64_t last = kfr_now_ns();
  for (int i = 0; i < 1000; ++i) {
    int64_t now = kfr_now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace kf
