// cuda_plan_test.cc: CUDA plans made, asked, launched, published and refused, through the C functions and the fake driver.
#include <gtest/gtest.h>

#include <thread>

#include "cuda_support.h"
#include "plan.h"

namespace kf {
namespace {

using namespace testing;
using CudaPlan = CudaTest;

const char* const kEmpty = "kf_main params=8,8 shared=0 threads=1024\n";  // a kernel that does nothing with x and y

std::string kernel(const std::string& geometry, const std::string& args = R"({"slot": "self"}, {"slot": "out0"})") {
  return R"({"entry": "kf_main", )" + geometry + R"(, "args": [)" + args + "]}";
}
std::string plan_with(const std::string& geometry) { return cuda_plan_json("p-1", {1000}, "", kernel(geometry)); }
std::string block256(const std::string& rest) { return R"("block": ["256", "1", "1"], )" + rest; }

// Launches on memory of its own and gives the line of the launch.
std::string launch_line(const PlanPtr& plan) {
  BufferPtr x = device_buffer(4096), y = device_buffer(4096);
  void* slots[] = {at(x), at(y)};
  kfr_error error{};
  fake().clear();
  EXPECT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, &error), KFR_OK) << error.text;
  std::vector<std::string> lines = logged("cuLaunchKernelEx");
  EXPECT_EQ(lines.size(), 1u);
  return lines.empty() ? "" : lines[0].substr(0, lines[0].find(" args="));
}

TEST_F(CudaPlan, ComputesWhatItsKernelSays) {
  PlanPtr plan = make(cuda_plan_json("p-1", {3, 500}), scale_cubin(), 0);
  BufferPtr x = device_buffer(6000), y = device_buffer(6000);
  for (int i = 0; i < 1500; ++i) *at(x, static_cast<size_t>(i)) = static_cast<float>(i);
  void* slots[] = {at(x), at(y)};
  kfr_error error{};
  ASSERT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, &error), KFR_OK) << error.text;
  for (size_t i = 0; i < 1500; ++i) ASSERT_EQ(*at(y, i), 2 * static_cast<float>(i) + 1);
  kfr_plan_info info{};
  ASSERT_EQ(kfr_plan_info_get(plan.get(), &info), KFR_OK);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.threads, 0);
}

TEST_F(CudaPlan, ArgumentsHaveTheTypesThatTheSpecSays) {
  std::string args =
      R"({"slot": "out0"}, {"int": "0 - 2", "type": "i32"}, {"int": "1 + 4294967296", "type": "i64"}, {"float": "0x1p-1", "type": "f32"},
    {"float": "-2", "type": "f64"}, {"int": "self_numel", "type": "f32"}, {"int": "3", "type": "f64"}, {"slot": "self"})";
  std::string json = cuda_plan_json("p-1", {1000}, "", kernel(block256(R"("smem": "0", "grid": ["1", "1", "1"])"), args));
  PlanPtr plan = make(json, cubin("kf_main params=8,4,8,4,8,4,8,8\n"), 0);
  int x = 0, y = 0;
  void* slots[] = {&x, &y};
  fake().clear();
  ASSERT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, nullptr), KFR_OK);
  std::string line = logged("cuLaunchKernelEx").at(0);
  char expected[256];
  std::snprintf(expected, sizeof expected,
                " args=8:%llx,4:fffffffe,8:100000001,4:3f000000,8:c000000000000000,4:447a0000,8:4008000000000000,8:%llx",
                reinterpret_cast<unsigned long long>(&y), reinterpret_cast<unsigned long long>(&x));
  EXPECT_NE(line.find(expected), std::string::npos) << line << "\nexpected " << expected;
}

TEST_F(CudaPlan, ArgumentsThatDoNotFitTheirType) {
  const char* cases[][2] = {{R"({"int": "2147483648", "type": "i32"})", "2147483648 does not fit an i32"},
                            {R"({"int": "0 - 2147483649", "type": "i32"})", "-2147483649 does not fit an i32"},
                            {R"({"int": "16777217", "type": "f32"})", "16777217 may not be exact as f32"},
                            {R"({"float": "1e39", "type": "f32"})", "the number does not fit an f32"},
                            {R"({"float": "1", "type": "i32"})", "expected `f32` or `f64` for a `float`"},
                            {R"({"int": "1", "type": "u32"})", "expected `i32` or `i64` or `f32` or `f64`"},
                            {R"({"int": "1"})", "missing field `type`"},
                            {R"({"slot": "self", "type": "i64"})", "unknown field `type`"}};
  for (auto& [arg, expected] : cases) {
    std::string json = cuda_plan_json("p-1", {8}, "", kernel(block256(R"("smem": "0", "grid": ["1", "1", "1"])"), arg));
    std::string error = refusal(json, cubin(kEmpty), KFR_BAD_SPEC, 0);
    EXPECT_NE(error.find(expected), std::string::npos) << arg << ": " << error;
    EXPECT_NE(error.find("field `plan.spec.kernels[0].args[0]"), std::string::npos) << error;
  }
}

// A launch with other parameters would read past them.
TEST_F(CudaPlan, ArgumentsMustBeWhatTheKernelTakes) {
  int64_t libraries = fake().alive("library");
  auto refuse = [&](const std::string& params) {
    return refusal(plan_with(block256(R"("smem": "0", "grid": ["1", "1", "1"])")), cubin("kf_main params=" + params + "\n"), KFR_BAD_SPEC,
                   0);
  };
  EXPECT_EQ(refuse("8,8,8"), "make a plan: kernel `kf_main`: 2 args (the kernel takes more)");
  EXPECT_EQ(refuse("8"), "make a plan: kernel `kf_main`: 2 args (the kernel takes 1)");
  EXPECT_EQ(refuse("8,4"), "make a plan: kernel `kf_main`: arg 1 has 8 bytes (the kernel takes 4)");
  EXPECT_EQ(fake().alive("library"), libraries);
}

TEST_F(CudaPlan, GeometryUsesSizesAndTheDevicesFacts) {
  PlanPtr plan = make(plan_with(R"j("block": ["32", "8", "2"], "smem": "min(smem_optin, 4096)",
    "grid": ["ceildiv(self_numel, 512)", "sm_count", "max_blocks_per_sm + l2_bytes / 62914560"])j"),
                      cubin(kEmpty), 0);
  // 512 threads and 5 KiB: 4 blocks a multiprocessor by threads.
  EXPECT_EQ(launch_line(plan), "kf_main grid=2,132,5 block=32,8,2 shared=4096");
}

// 100 KiB a block (and the system's own): 2 on a multiprocessor. The attribute comes first, or the occupancy is that of a refused launch.
TEST_F(CudaPlan, OccupancyCountsDynamicSharedMemoryAboveTheDefault) {
  fake().clear();
  PlanPtr plan = make(plan_with(block256(R"("smem": "102400", "grid": ["max_blocks_per_sm", "1", "1"])")), cubin(kEmpty), 0);
  EXPECT_EQ(logged("cuKernelSetAttribute"), std::vector<std::string>{"kf_main 8=102400"});
  std::string log = fake().log();
  EXPECT_LT(log.find("cuKernelSetAttribute"), log.find("cuOccupancyMaxActiveBlocksPerMultiprocessor"));
  EXPECT_EQ(launch_line(plan), "kf_main grid=2,1,1 block=256,1,1 shared=102400");
}

TEST_F(CudaPlan, SharedMemoryUpToTheDefaultNeedsNoAsking) {
  fake().clear();
  make(plan_with(block256(R"("smem": "49152", "grid": ["1", "1", "1"])")), cubin(kEmpty), 0);
  EXPECT_TRUE(logged("cuKernelSetAttribute").empty());
  make(plan_with(block256(R"("smem": "49152", "grid": ["1", "1", "1"])")), cubin("kf_main params=8,8 shared=16\n"),
       0);  // with its static part it is more
  EXPECT_EQ(logged("cuKernelSetAttribute"), std::vector<std::string>{"kf_main 8=49152"});
}

TEST_F(CudaPlan, AKernelNamedTwiceMayUseItsLargestSharedMemory) {
  auto with = [](const std::string& smem) { return kernel(block256(R"("smem": ")" + smem + R"(", "grid": ["1", "1", "1"])")); };
  fake().clear();
  PlanPtr plan = make(cuda_plan_json("p-1", {1000}, "", with("90000") + ", " + with("60000") + ", " + with("95000")), cubin(kEmpty), 0);
  EXPECT_EQ(logged("cuKernelSetAttribute"), (std::vector<std::string>{"kf_main 8=90000", "kf_main 8=95000"}));
  BufferPtr x = device_buffer(4096), y = device_buffer(4096);
  void* slots[] = {at(x), at(y)};
  EXPECT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, nullptr), KFR_OK);
}

TEST_F(CudaPlan, ClustersAndCooperativeLaunchesAreAttributes) {
  std::string three = block256(R"("smem": "0", "grid": ["4", "2", "1"])");
  EXPECT_EQ(launch_line(make(plan_with(three + R"(, "cluster": ["2", "1", "1"])"), cubin(kEmpty), 0)),
            "kf_main grid=4,2,1 block=256,1,1 shared=0 cluster=2,1,1");
  EXPECT_EQ(launch_line(make(plan_with(three + R"(, "cooperative": true)"), cubin(kEmpty), 0)),
            "kf_main grid=4,2,1 block=256,1,1 shared=0 cooperative");
  EXPECT_EQ(launch_line(make(plan_with(three + R"(, "cooperative": false)"), cubin(kEmpty), 0)),
            "kf_main grid=4,2,1 block=256,1,1 shared=0");
  EXPECT_EQ(launch_line(make(plan_with(three + R"(, "cluster": ["2", "2", "1"], "cooperative": true)"), cubin(kEmpty), 0)),
            "kf_main grid=4,2,1 block=256,1,1 shared=0 cluster=2,2,1 cooperative");
  fake().clear();
  std::string sixteen = block256(R"("smem": "0", "grid": ["16", "1", "1"], "cluster": ["16", "1", "1"])");
  EXPECT_EQ(launch_line(make(plan_with(sixteen), cubin(kEmpty), 0)), "kf_main grid=16,1,1 block=256,1,1 shared=0 cluster=16,1,1");
}

TEST_F(CudaPlan, TheDocumentsExampleIsAPlan) {
  std::string json = cuda_plan_json("p-1", {64, 1000}), spec = doc_example("spec", 1);
  size_t from = json.find("\"spec\": "), to = json.find(", \"align\"");
  json = json.substr(0, from) + "\"spec\": " + spec + json.substr(to);
  PlanPtr plan = make(json, cubin("kf_main params=8,8,8,4,4\n"), 0);
  kfr_plan_info info{};
  ASSERT_EQ(kfr_plan_info_get(plan.get(), &info), KFR_OK);
  ASSERT_EQ(info.workspaces, 1u);
  EXPECT_EQ(info.workspace_bytes[0], 512u);
  EXPECT_EQ(info.workspace_zeroed[0], 1);
}

TEST_F(CudaPlan, GeometryThatCannotBe) {
  struct Case {
    const char *geometry, *info, *expected;
    kfr_status status;
  };
  const Case cases[] = {
      {R"("block": ["0", "1", "1"], "smem": "0", "grid": ["1", "1", "1"])", kEmpty, "`0` is 0 here (expected 1 to 1024)", KFR_BAD_SPEC},
      {R"("block": ["1025", "1", "1"], "smem": "0", "grid": ["1", "1", "1"])", kEmpty, "(expected 1 to 1024)", KFR_BAD_SPEC},
      {R"("block": ["1", "1", "65"], "smem": "0", "grid": ["1", "1", "1"])", kEmpty, "(expected 1 to 64)", KFR_BAD_SPEC},
      {R"("block": ["512", "2", "2"], "smem": "0", "grid": ["1", "1", "1"])", kEmpty, "512x2x2 is more than 1024 threads", KFR_BAD_SPEC},
      {R"("block": ["256", "1"], "smem": "0", "grid": ["1", "1", "1"])", kEmpty, "expected three expressions", KFR_BAD_SPEC},
      {R"("block": ["256", "1", "1"], "smem": "0")", kEmpty, "missing field `grid`", KFR_BAD_SPEC},
      {R"("block": ["256", "1", "1"], "grid": ["1", "1", "1"])", kEmpty, "missing field `smem`", KFR_BAD_SPEC},
      {R"("block": ["256", "1", "1"], "smem": "0", "grid": ["1", "65536", "1"])", kEmpty, "(expected 1 to 65535)", KFR_BAD_SPEC},
      {R"("block": ["256", "1", "1"], "smem": "0", "grid": ["2147483648", "1", "1"])", kEmpty, "(expected 1 to 2147483647)", KFR_BAD_SPEC},
      {R"("block": ["max_blocks_per_sm", "1", "1"], "smem": "0", "grid": ["1", "1", "1"])", kEmpty, "`max_blocks_per_sm`", KFR_BAD_SPEC},
      {R"("block": ["256", "1", "1"], "smem": "smem_optin + 1", "grid": ["1", "1", "1"])", kEmpty, "(expected 0 to 232448)", KFR_BAD_SPEC},
      {R"("block": ["256", "1", "1"], "smem": "smem_optin", "grid": ["1", "1", "1"])", "kf_main params=8,8 shared=16\n",
       "232448 bytes and 16 of kernel `kf_main` itself (this device has 232448)", KFR_LAUNCH},
      {R"("block": ["512", "1", "1"], "smem": "0", "grid": ["1", "1", "1"])", "kf_main params=8,8 threads=256\n",
       "512 threads (kernel `kf_main` takes at most 256", KFR_LAUNCH},
      {R"("block": ["256", "1", "1"], "smem": "0", "grid": ["3", "1", "1"], "cluster": ["2", "1", "1"])", kEmpty,
       "a grid of 3x1x1 is no multiple of the cluster 2x1x1", KFR_BAD_SPEC},
      {R"("block": ["256", "1", "1"], "smem": "0", "grid": ["32", "1", "1"], "cluster": ["4", "4", "2"])", kEmpty,
       "4x4x2 is more than 16 blocks", KFR_BAD_SPEC},
      {R"("block": ["256", "1", "1"], "smem": "0", "grid": ["sm_count * max_blocks_per_sm + 1", "1", "1"], "cooperative": true)", kEmpty,
       "a cooperative launch of 1057 blocks (this device holds 1056 of them at once)", KFR_LAUNCH},
      {R"("work": "1", "grain": "1")", kEmpty, "missing field `block`", KFR_BAD_SPEC},
  };
  int64_t libraries = fake().alive("library");
  for (const Case& c : cases) {
    std::string error = refusal(plan_with(c.geometry), cubin(c.info), c.status, 0);
    EXPECT_NE(error.find(c.expected), std::string::npos) << c.geometry << ": " << error;
  }
  EXPECT_EQ(fake().alive("library"), libraries);
}

TEST_F(CudaPlan, ABlockThatNeverFitsAndClustersThatNeverFit) {
  fake().set("occupancy", 0);
  std::string geometry = block256(R"("smem": "0", "grid": ["2", "1", "1"])");
  EXPECT_EQ(refusal(plan_with(geometry), cubin(kEmpty), KFR_LAUNCH, 0).find("make a plan: kernel `kf_main`: a block of 256 threads"), 0u);
  fake().set("occupancy", -1);
  fake().set("clusters", 0);
  EXPECT_NE(refusal(plan_with(geometry + R"(, "cluster": ["2", "1", "1"])"), cubin(kEmpty), KFR_LAUNCH, 0)
                .find("clusters of 2x1x1 blocks of 256x1x1 threads do not fit this device"),
            std::string::npos);
}

TEST_F(CudaPlan, AKernelThatTheSpecDoesNotLaunchIsRefused) {
  std::string json = plan_with(block256(R"("smem": "0", "grid": ["1", "1", "1"])"));
  EXPECT_NE(refusal(json, cubin("kf_main params=8,8\nkf_more params=8\n"), KFR_BAD_CODE, 0)
                .find("kernel `kf_more`, which the spec does not launch"),
            std::string::npos);
}

TEST_F(CudaPlan, LocalMemoryOfAThreadIsBounded) {
  std::string json = plan_with(block256(R"("smem": "0", "grid": ["1", "1", "1"])"));
  make(json, cubin("kf_main params=8,8 local=16384\n"), 0);
  EXPECT_NE(refusal(json, cubin("kf_main params=8,8 local=16388\n"), KFR_BAD_CODE, 0).find("needs 16388 bytes of local memory a thread"),
            std::string::npos);
}

TEST_F(CudaPlan, HostFieldsAreUnknownHere) {
  std::string json = replaced(cuda_plan_json("p-1", {8}), "\"exact\": true", "\"exact\": true, \"threads\": 2");
  EXPECT_NE(refusal(json, scale_cubin(), KFR_BAD_SPEC, 0).find("unknown field `threads`"), std::string::npos);
}

TEST_F(CudaPlan, TheImageMustSuitTheDevice) {
  int64_t libraries = fake().alive("library");
  std::string json = cuda_plan_json("p-1", {8});
  kfr_plan* plan = nullptr;
  kfr_error error{};
  std::string other = cubin("arch=100\nkf_main params=8,8,4,4,8\n");
  EXPECT_EQ(kfr_plan_create(json.data(), json.size(), other.data(), other.size(), 0, &plan, &error), KFR_BAD_CODE);
  EXPECT_STREQ(
      error.text,
      "make a plan: load the cubin on Fake GPU 0, compute capability 9.0: CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image is available for "
      "execution on the device)");
  EXPECT_NE(std::string(error.hint).find("another architecture"), std::string::npos);
  EXPECT_NE(refusal(json, cubin("kf_other params=8\n"), KFR_BAD_CODE, 0).find("it has no kernel `kf_main` (it holds `kf_other`)"),
            std::string::npos);
  EXPECT_NE(refusal(json, "", KFR_BAD_CODE, 0).find("it is empty"), std::string::npos);
  for (int32_t code : {200, 218, 222, 300, 500}) {
    fake().fail("cuLibraryLoadData", code, 0, 1);
    refusal(json, scale_cubin(), KFR_BAD_CODE, 0);
    fake().fail("cuKernelGetFunction", code, 0, 1);  // lazy loading tells it here
    refusal(json, scale_cubin(), KFR_BAD_CODE, 0);
  }
  fake().fail("cuLibraryLoadData", 2, 0, 1);
  refusal(json, scale_cubin(), KFR_SYSTEM, 0);
  EXPECT_EQ(fake().alive("library"), libraries);
}

TEST_F(CudaPlan, ZeroedWorkspacesAreClearedOnTheStreamBeforeTheKernels) {
  std::string kernels = kernel(block256(R"("smem": "0", "grid": ["1", "1", "1"])"), R"({"slot": "self"}, {"slot": "ws0"})");
  std::string spaces =
      R"({"bytes": "4 * self_numel", "zeroed": true}, {"bytes": "100", "zeroed": true}, {"bytes": "100", "zeroed": false})";
  PlanPtr plan = make(cuda_plan_json("p-1", {8}, spaces, kernels), cubin(kEmpty), 0);
  std::vector<float> x(8), y(8), ws(8, 7);
  void* slots[] = {x.data(), y.data(), ws.data(), nullptr, nullptr};  // the others are used by no kernel
  fake().clear();
  ASSERT_EQ(kfr_launch(plan.get(), slots, 5, nullptr, nullptr, nullptr), KFR_OK);
  EXPECT_EQ(ws, std::vector<float>(8, 0));
  EXPECT_EQ(logged("cuMemsetD8Async"), std::vector<std::string>{"32 value=0"});
  std::string log = fake().log();
  EXPECT_LT(log.find("cuMemsetD8Async"), log.find("cuLaunchKernelEx"));
}

TEST_F(CudaPlan, LaunchIsRefusedInWords) {
  PlanPtr plan = make(plan_with(block256(R"("smem": "128", "grid": ["1", "1", "1"])")), cubin(kEmpty), 0);
  int x = 0;
  void* slots[] = {&x, &x};
  void* holes[] = {&x, nullptr};
  kfr_error error{};
  fake().clear();
  EXPECT_EQ(kfr_launch(plan.get(), holes, 2, nullptr, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_STREQ(error.text, "launch `p-1`: slot 1 is NULL");
  EXPECT_TRUE(logged("cuLaunchKernelEx").empty());
  fake().fail("cuLaunchKernelEx", 701, 0, 1);
  EXPECT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, &error), KFR_LAUNCH);
  EXPECT_STREQ(error.text,
               "launch `p-1`: kernel `kf_main`: 1x1x1 blocks of 256x1x1 threads with 128 bytes of dynamic shared memory: "
               "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources requested for launch)");
  fake().fail("cuLaunchKernelEx", 700, 0, 1);  // of an earlier kernel
  EXPECT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, &error), KFR_FAULT);
}

// A caller goes on with eager from the tensors that a plan writes unless one of its kernels ran: the status must say so for every reason of the driver.
TEST_F(CudaPlan, TheStatusOfARefusedLaunchSaysWhetherAKernelRan) {
  std::string one = kernel(block256(R"("smem": "0", "grid": ["1", "1", "1"])"));
  PlanPtr plan =
      make(cuda_plan_json("p-1", {8}, R"({"bytes": "32", "zeroed": true})",
                          kernel(block256(R"("smem": "0", "grid": ["1", "1", "1"])"), R"({"slot": "self"}, {"slot": "ws0"})") + ", " + one),
           cubin(kEmpty), 0);
  std::vector<float> x(8), y(8), ws(8);
  void* slots[] = {x.data(), y.data(), ws.data()};
  struct Case {
    const char* symbol;
    int32_t result, skip;
    kfr_status status;
  };
  const Case cases[] = {
      {"cuLaunchKernelEx", 2, 1, KFR_DRIVER},  // out of memory: local memory grows at a launch
      {"cuLaunchKernelEx", 3, 1, KFR_DRIVER},   {"cuLaunchKernelEx", 209, 1, KFR_DRIVER},
      {"cuLaunchKernelEx", 701, 1, KFR_DRIVER}, {"cuLaunchKernelEx", 700, 1, KFR_FAULT},  // nothing goes on after a fault
      {"cuLaunchKernelEx", 2, 0, KFR_SYSTEM},   {"cuLaunchKernelEx", 701, 0, KFR_LAUNCH},
  };
  for (const Case& c : cases) {
    kfr_error error{};
    fake().fail(c.symbol, c.result, c.skip, 1);
    EXPECT_EQ(kfr_launch(plan.get(), slots, 3, nullptr, nullptr, &error), c.status)
        << c.symbol << " gives " << c.result << ": " << error.text;
    EXPECT_EQ(error.code, c.status);
  }
}

// A thread that torch has not touched CUDA in has no context; the first launch gives it the device's.
TEST_F(CudaPlan, AThreadWithoutAContextGetsTheDevices) {
  PlanPtr plan = make(cuda_plan_json("p-1", {8}), scale_cubin(), 0);
  std::vector<float> x(8, 1), y(8);
  void* slots[] = {x.data(), y.data()};
  fake().clear();
  std::thread([&] {
    kfr_error error{};
    EXPECT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, &error), KFR_OK) << error.text;
    EXPECT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, &error), KFR_OK) << error.text;
  }).join();
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(logged("cuCtxSetCurrent").size(), 1u);
  EXPECT_EQ(logged("cuLaunchKernelEx").size(), 3u);  // refused, again, and the second
  fake().fail("cuLaunchKernelEx", 201, 0, 2);
  kfr_error error{};
  EXPECT_EQ(kfr_launch(plan.get(), slots, 2, nullptr, nullptr, &error), KFR_LAUNCH) << "it tries once, not for ever";
}

TEST_F(CudaPlan, PublishingLaunchesEachPlanOnceOnScratchMemory) {
  kfr_plan* plan = make(cuda_plan_json("p-1", {8}), scale_cubin(), 0).release();
  double ns = 0;
  kfr_error error{};
  ASSERT_EQ(kfr_time_reference(0, nullptr, nullptr, 1, &ns, nullptr), KFR_OK);  // the ruler keeps memory of its own
  int64_t memory = fake().alive("memory");
  fake().clear();
  ASSERT_EQ(kfr_publish(&plan, 1, 0, &error), KFR_OK) << error.text;
  EXPECT_EQ(logged("run kf_main").size(), 1u);
  EXPECT_EQ(fake().alive("memory"), memory);
  std::vector<int64_t> words = tensor_words({8});
  EXPECT_EQ(kfr_lookup(kfr_op_id("aten::relu"), 0, words.data(), static_cast<uint32_t>(words.size())), plan);
  EXPECT_EQ(kfr_lookup(kfr_op_id("aten::relu"), 1, words.data(), static_cast<uint32_t>(words.size())), nullptr);
  ASSERT_EQ(kfr_publish(&plan, 1, 0, nullptr), KFR_OK);
  EXPECT_EQ(logged("run kf_main").size(), 1u) << "what has run needs no second warm launch";
  ASSERT_EQ(kfr_publish(nullptr, 0, 0, nullptr), KFR_OK);
}

TEST_F(CudaPlan, ACaptureOfAnotherThreadForbidsNeitherMakingNorPublishing) {
  fake().capture_elsewhere(1);
  fake().clear();
  kfr_plan* plan = make(cuda_plan_json("p-1", {8}), scale_cubin(), 0).release();
  kfr_error error{};
  ASSERT_EQ(kfr_publish(&plan, 1, 0, &error), KFR_OK) << error.text;
  ASSERT_EQ(kfr_publish(nullptr, 0, 0, nullptr), KFR_OK);
  std::vector<std::string> modes = logged("cuThreadExchangeStreamCaptureMode");
  ASSERT_FALSE(modes.empty());
  EXPECT_EQ(modes.size() % 2, 0u);
  EXPECT_EQ(modes.front(), "2") << "relaxed";
  EXPECT_EQ(modes.back(), "0") << "and back to what it was";
}

TEST_F(CudaPlan, PublishingTellsWhatFailed) {
  PlanPtr plan = make(cuda_plan_json("p-1", {8}), scale_cubin(), 0);
  kfr_plan* list[] = {plan.get()};
  kfr_error error{};
  fake().set("memory", 0);
  EXPECT_EQ(kfr_publish(list, 1, 0, &error), KFR_SYSTEM);
  EXPECT_STREQ(error.text, "publish `p-1`: launch once on scratch memory: allocate 8192 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  EXPECT_NE(std::string(error.hint).find("empty_cache"), std::string::npos);
  fake().set("memory", int64_t{1} << 40);
  fake().fault(700);
  EXPECT_EQ(kfr_publish(list, 1, 0, &error), KFR_FAULT);
  EXPECT_NE(std::string(error.text).find("publish `p-1`: "), std::string::npos);
  fake().fault(0);
  std::vector<int64_t> words = tensor_words({8});
  EXPECT_EQ(kfr_lookup(kfr_op_id("aten::relu"), 0, words.data(), static_cast<uint32_t>(words.size())), nullptr);
}

TEST_F(CudaPlan, FreeingUnloads) {
  int64_t before = fake().alive("library");
  PlanPtr plan = make(cuda_plan_json("p-1", {8}), scale_cubin(), 0);
  EXPECT_EQ(fake().alive("library"), before + 1);
  plan.reset();
  EXPECT_EQ(fake().alive("library"), before);
}

}  // namespace
}  // namespace kf
