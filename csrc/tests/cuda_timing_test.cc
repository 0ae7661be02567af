// cuda_timing_test.cc: what is measured on CUDA, by the fake's clock, which only work moves: 10 us a kernel, 0.5 us a memset, 2 us a copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "cuda_support.h"

namespace kf {
namespace {

using namespace testing;
using CudaTiming = CudaTest;

struct Sets {
  explicit Sets(size_t n) {
    for (size_t i = 0; i < n; ++i) {
      memory.push_back(device_buffer(4096));
      *at(memory.back()) = static_cast<float>(100 * (i + 1));
      slots.push_back(kfr_buffer_data(memory.back().get()));
      slots.push_back(nullptr);
    }
  }
  std::vector<BufferPtr> memory;
  std::vector<void*> slots;
};

// A kernel that counts its launches in x[0] and writes y.
std::string counting_cubin() {
  return cubin("kf_main params=8,8\n", build(R"(
KF_ENTRY void kf_main(void** p, const uint32_t*, const uint32_t*) {
  **static_cast<float**>(p[0]) += 1;
  **static_cast<float**>(p[1]) = 5;
})"));
}
std::string counting_plan(const std::string& workspaces = "", const std::string& second = R"({"slot": "out0"})") {
  return cuda_plan_json("p-1", {8}, workspaces, R"({"entry": "kf_main", "grid": ["1", "1", "1"], "block": ["32", "1", "1"], "smem": "0",
    "args": [{"slot": "self"}, )" + second + "]}");
}

kfr_status time_it(const PlanPtr& plan, const Sets& sets, uint32_t samples, uint32_t inner, int32_t warm, std::vector<double>* ns,
                   kfr_error* error) {
  ns->assign(samples, -1);
  auto nsets = static_cast<uint32_t>(sets.memory.size());
  return kfr_time_plan(plan.get(), sets.slots.data(), nsets, static_cast<uint32_t>(sets.slots.size()) / nsets, samples, inner, warm,
                       nullptr, nullptr, ns->data(), error);
}

TEST_F(CudaTiming, ASampleIsAGraphOfInnerLaunchesBetweenEvents) {
  PlanPtr plan = make(counting_plan(), counting_cubin(), 0);
  Sets sets(3);
  std::vector<double> ns;
  kfr_error error{};
  ASSERT_EQ(time_it(plan, sets, 4, 5, 1, &ns, &error), KFR_OK) << error.text;
  for (double v : ns) EXPECT_NEAR(v, 10000, 1) << "neither delay nor host time";
  // 3 warm launches, then 20 round robin over the samples: 7, 7, 6.
  EXPECT_EQ(*at(sets.memory[0]), 100 + 8);
  EXPECT_EQ(*at(sets.memory[1]), 200 + 8);
  EXPECT_EQ(*at(sets.memory[2]), 300 + 7);
}

TEST_F(CudaTiming, WithFewLaunchesEverySetHasItsTurn) {
  PlanPtr plan = make(counting_plan(), counting_cubin(), 0);
  Sets sets(4);
  std::vector<double> ns;
  kfr_error error{};
  ASSERT_EQ(time_it(plan, sets, 8, 1, 0, &ns, &error), KFR_OK) << error.text;
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(*at(sets.memory[i]), 100 * static_cast<float>(i + 1) + 2) << "or its data would lie in the cache";
}

TEST_F(CudaTiming, TheDelayComesFirstAndTheEventsStandAroundTheGraphAlone) {
  PlanPtr plan = make(counting_plan(), counting_cubin(), 0);
  Sets sets(1);
  std::vector<double> ns;
  ASSERT_EQ(time_it(plan, sets, 1, 2, 0, &ns, nullptr), KFR_OK);
  std::string log = fake().log();
  size_t wait = log.rfind("cuCtxSynchronize"), delay = log.find("cuGraphLaunch 64 nodes", wait), start = log.find("cuEventRecord", delay),
         graph = log.find("cuGraphLaunch 2 nodes", start), stop = log.find("cuEventRecord", graph),
         done = log.find("cuEventSynchronize", stop);
  EXPECT_NE(done, std::string::npos) << log.substr(wait);
  EXPECT_EQ(std::count(log.begin() + static_cast<long>(start), log.begin() + static_cast<long>(graph), '\n'), 1) << "one call between";
}

TEST_F(CudaTiming, GraphsOfASeriesAreKeptForTheNext) {
  PlanPtr plan = make(counting_plan(), counting_cubin(), 0);
  Sets sets(2), others(2);
  std::vector<double> ns;
  int64_t before = fake().alive("exec");
  ASSERT_EQ(time_it(plan, sets, 4, 3, 1, &ns, nullptr), KFR_OK);
  EXPECT_EQ(fake().alive("exec"), before + 2) << "one from each set that a sample begins with";
  EXPECT_EQ(fake().alive("graph"), 0);
  fake().clear();
  ASSERT_EQ(time_it(plan, sets, 4, 3, 0, &ns, nullptr), KFR_OK);
  EXPECT_TRUE(logged("cuGraphInstantiateWithFlags").empty());
  ASSERT_EQ(time_it(plan, others, 4, 3, 0, &ns, nullptr), KFR_OK);
  EXPECT_EQ(logged("cuGraphInstantiateWithFlags").size(), 2u);
  EXPECT_EQ(fake().alive("exec"), before + 2);
  plan.reset();
  EXPECT_EQ(fake().alive("exec"), before);
}

TEST_F(CudaTiming, SlotsWithoutMemoryShareOneAllocation) {
  std::string workspace = R"({"bytes": "1000", "zeroed": true})";
  PlanPtr plan = make(counting_plan(workspace, R"({"slot": "ws0"})"), counting_cubin(), 0);
  Sets sets(3);
  std::vector<void*> slots;
  for (const BufferPtr& b : sets.memory) slots.insert(slots.end(), {kfr_buffer_data(b.get()), nullptr, nullptr});
  sets.slots = slots;
  std::vector<double> ns;
  kfr_error error{};
  int64_t memory = fake().alive("memory");
  ASSERT_EQ(time_it(plan, sets, 2, 3, 1, &ns, &error), KFR_OK) << error.text;
  EXPECT_EQ(fake().alive("memory"), memory + 1);
  EXPECT_NEAR(ns[0], 10500, 1) << "clearing the workspace belongs to a launch";
  plan.reset();
  EXPECT_EQ(fake().alive("memory"), memory);
}

TEST_F(CudaTiming, TheReferenceKernelIsFourCopies) {
  double ns[3] = {};
  kfr_error error{};
  ASSERT_EQ(kfr_time_reference(0, nullptr, nullptr, 3, ns, &error), KFR_OK) << error.text;
  for (double v : ns) EXPECT_NEAR(v, 8000, 1);
  fake().clear();
  ASSERT_EQ(kfr_time_reference(0, nullptr, nullptr, 1, ns, &error), KFR_OK);
  EXPECT_TRUE(logged("cuMemAlloc_v2").empty());
  EXPECT_EQ(logged("cuGraphLaunch 4").size(), 2u) << "one that does not count goes first";
  EXPECT_EQ(kfr_time_reference(0, nullptr, nullptr, 0, ns, &error), KFR_BAD_ARGUMENT);
}

TEST_F(CudaTiming, GraphsOfOthersAreTimedByTheSameRuler) {
  // A graph made as torch makes one: by another part of the process.
  struct Foreign {
    int number = 1;
    struct Node {
      std::string text;
      int64_t ns;
      std::function<void()> work;
    };
    std::vector<Node> nodes;
  } graph;
  int replays = 0;
  graph.nodes.push_back({"foreign", 3000, [&] { ++replays; }});
  graph.nodes.push_back({"foreign", 4000, {}});
  double ns[2] = {};
  kfr_error error{};
  ASSERT_EQ(kfr_graph_time(0, &graph, nullptr, 2, ns, &error), KFR_OK) << error.text;
  EXPECT_NEAR(ns[0], 7000, 1);
  EXPECT_NEAR(ns[1], 7000, 1);
  EXPECT_EQ(replays, 3);
  EXPECT_EQ(kfr_graph_time(0, nullptr, nullptr, 2, ns, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_graph_time(0, &graph, nullptr, 0, ns, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_graph_time(0, &graph, nullptr, 2, nullptr, &error), KFR_BAD_ARGUMENT);
}

TEST_F(CudaTiming, AFailureEndsTheCaptureAndLeavesNothing) {
  PlanPtr plan = make(counting_plan(), counting_cubin(), 0);
  Sets sets(2);
  std::vector<double> ns;
  ASSERT_EQ(time_it(plan, sets, 1, 1, 0, &ns, nullptr), KFR_OK);  // the ruler is there
  plan = make(counting_plan(), counting_cubin(), 0);
  int64_t graphs = fake().alive("graph"), execs = fake().alive("exec");
  kfr_error error{};
  for (const char* step :
       {"cuStreamBeginCapture_v2", "cuLaunchKernelEx", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphUpload",
        "cuGraphLaunch", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime", "cuCtxSynchronize"}) {
    fake().fail(step, 999, 0, 1);
    kfr_status status = time_it(plan, sets, 1, 3, 0, &ns, &error);
    EXPECT_EQ(status, KFR_DRIVER) << step;
    EXPECT_EQ(std::string(error.text).find("time `p-1`: "), 0u) << step << ": " << error.text;
    EXPECT_EQ(fake().alive("graph"), graphs) << step;
    plan = make(counting_plan(), counting_cubin(), 0);
    EXPECT_EQ(fake().alive("exec"), execs) << step;
  }
  ASSERT_EQ(time_it(plan, sets, 1, 3, 0, &ns, &error), KFR_OK) << error.text;
}

// The fake's clock is the device's: work of the other thread between two events would be in the sample.
TEST_F(CudaTiming, TwoThreadsMeasureInTurn) {
  PlanPtr plans[] = {make(counting_plan(), counting_cubin(), 0), make(counting_plan(), counting_cubin(), 0)};
  Sets sets[] = {Sets(3), Sets(3)};  // made before: clearing them is work as well
  std::latch both(2);
  auto measure = [&](size_t which) {
    std::vector<double> ns;
    kfr_error error{};
    both.arrive_and_wait();
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(time_it(plans[which], sets[which], 10, 2, 1, &ns, &error), KFR_OK) << error.text;
      for (double v : ns) ASSERT_NEAR(v, 10000, 1);
    }
  };
  std::thread first(measure, 0), second(measure, 1);
  first.join();
  second.join();
}

TEST_F(CudaTiming, AFaultOfTheCandidateIsToldAsOne) {
  PlanPtr plan = make(counting_plan(), counting_cubin(), 0);
  Sets sets(1);
  std::vector<double> ns;
  ASSERT_EQ(time_it(plan, sets, 1, 1, 0, &ns, nullptr), KFR_OK);
  fake().fault(700);
  kfr_error error{};
  EXPECT_EQ(time_it(plan, sets, 2, 1, 0, &ns, &error), KFR_FAULT);
  EXPECT_NE(std::string(error.text).find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << error.text;
}

TEST_F(CudaTiming, RefusesWhatCannotBe) {
  PlanPtr plan = make(counting_plan(), counting_cubin(), 0);
  Sets sets(1);
  std::vector<double> ns;
  kfr_error error{};
  sets.slots[0] = nullptr;
  EXPECT_EQ(time_it(plan, sets, 1, 1, 0, &ns, &error), KFR_BAD_ARGUMENT);
  EXPECT_STREQ(error.text, "time `p-1`: input slot 0 is NULL");
  double one = 0;
  EXPECT_EQ(kfr_time_plan(plan.get(), sets.slots.data(), 1, 2, 0, 1, 0, nullptr, nullptr, &one, &error), KFR_BAD_ARGUMENT);
}

}  // namespace
}  // namespace kf
