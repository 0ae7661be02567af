// cuda_device_test.cc: opening the driver and its devices: what is told, what stays untouched, and every way in which it can fail.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "cuda_support.h"
#include "error.h"

namespace kf {
namespace {

using namespace testing;
using CudaDevice = CudaTest;
using ::testing::ExitedWithCode;

TEST_F(CudaDevice, IsDescribed) {
  kfr_device_info info{};
  kfr_error error{};
  ASSERT_EQ(kfr_device_open(0, &info, &error), KFR_OK) << error.text;
  EXPECT_STREQ(info.name, "Fake GPU 0");
  EXPECT_STREQ(info.pci, "0000:19:00.0");
  EXPECT_EQ(info.major, 9);
  EXPECT_EQ(info.minor, 0);
  EXPECT_EQ(info.sm_count, 132);
  EXPECT_EQ(info.warp, 32);
  EXPECT_EQ(info.driver, 13000);
  EXPECT_EQ(info.l2_bytes, 62914560);
  EXPECT_EQ(info.smem_optin, 232448);
  EXPECT_EQ(info.memory_bytes, int64_t{141} << 30);
  EXPECT_EQ(info.uuid[3], 3);
  EXPECT_EQ(info.vmm, 1);
  EXPECT_EQ(info.read_only, 1);
  EXPECT_EQ(fake().alive("handle") + fake().alive("mapping") + fake().alive("reservation"), 0) << "the trial left something behind";
}

TEST_F(CudaDevice, BecomesCurrentOnlyInAThreadThatHasNoOther) {
  std::thread([] {
    cuda::Context current = nullptr;
    fake().get_current(&current);
    EXPECT_EQ(current, nullptr);
    ASSERT_EQ(kfr_device_open(0, nullptr, nullptr), KFR_OK);
    fake().get_current(&current);
    EXPECT_NE(current, nullptr);
    auto* other = reinterpret_cast<cuda::Context>(&current);  // torch on another device
    fake().set_current(other);
    ASSERT_EQ(kfr_device_open(0, nullptr, nullptr), KFR_OK);
    BufferPtr buffer = device_buffer(4096);
    buffer.reset();
    fake().get_current(&current);
    EXPECT_EQ(current, other);
  }).join();
}

TEST_F(CudaDevice, OrdinalsThatAreNone) {
  kfr_error error{};
  EXPECT_EQ(kfr_device_open(5, nullptr, &error), KFR_NO_DEVICE);
  EXPECT_STREQ(error.text, "open CUDA device 5: no such ordinal (this process sees 1)");
  EXPECT_NE(std::string(error.hint).find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  EXPECT_EQ(kfr_device_open(64, nullptr, &error), KFR_NO_DEVICE);
  EXPECT_EQ(kfr_device_open(-1, nullptr, &error), KFR_BAD_ARGUMENT);
  double ns = 0;
  EXPECT_EQ(kfr_graph_time(KFR_HOST, &ns, nullptr, 1, &ns, &error), KFR_NO_DEVICE);
  EXPECT_EQ(kfr_stream_wait(KFR_HOST, nullptr, &error), KFR_OK);
  EXPECT_EQ(kfr_stream_wait(0, nullptr, &error), KFR_OK);
}

TEST_F(CudaDevice, AFaultIsToldAsOneAndLosesTheContext) {
  fake().fail("cuStreamSynchronize", 700, 0, 1);
  kfr_error error{};
  EXPECT_EQ(kfr_stream_wait(0, nullptr, &error), KFR_FAULT);
  EXPECT_STREQ(error.text, "wait for a stream: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
  EXPECT_STREQ(error.hint, "only a new process gets a working context again");
  for (int32_t code : {214, 220, 226, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 806, 810}) {
    fake().fail("cuStreamSynchronize", code, 0, 1);
    EXPECT_EQ(kfr_stream_wait(0, nullptr, &error), KFR_FAULT) << code;
    EXPECT_NE(error.hint[0], 0) << code;
  }
  fake().fail("cuStreamSynchronize", 999, 0, 1);
  EXPECT_EQ(kfr_stream_wait(0, nullptr, &error), KFR_DRIVER);
  EXPECT_STREQ(error.text, "wait for a stream: driver error 999");
}

using CudaDeviceDeathTest = ::testing::Test;

// Each in a process of its own: a driver that was opened stays open.
TEST(CudaDeviceDeathTest, NoUsableDriver) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_in_fresh_process({{"KERNELFORGE_LIBCUDA", "/nowhere/libcuda.so.1"}}), ExitedWithCode(KFR_NO_DEVICE),
              "open the CUDA driver: /nowhere/libcuda.so.1: cannot open.*hint: install the NVIDIA driver");
  EXPECT_EXIT(open_in_fresh_process({{"KERNELFORGE_LIBCUDA", KF_SHARED}}), ExitedWithCode(KFR_NO_DEVICE),
              "is a driver for CUDA 0.0, and it lacks `cuInit` .expected CUDA 12.0 or newer.*hint: install a newer NVIDIA driver");
  EXPECT_EXIT(open_in_fresh_process({{"KF_FAKE_CUDA", "driver=11080"}}), ExitedWithCode(KFR_NO_DEVICE),
              "is a driver for CUDA 11.8 .expected CUDA 12.0");
}

TEST(CudaDeviceDeathTest, DriversThatDoNotStart) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::map<std::string, std::string> cases = {{"100", "CUDA_ERROR_NO_DEVICE .no CUDA-capable device.*hint: no GPU is visible"},
                                                    {"803", "driver error 803; hint: the driver's library and kernel module differ"},
                                                    {"802", "fabric manager"},
                                                    {"34", "a stub of the toolkit"},
                                                    {"805", "CUDA_ERROR_MPS_CONNECTION_FAILED.*hint: CUDA MPS is set up"},
                                                    {"3", "does not survive a fork"}};
  for (const auto& [code, text] : cases) {
    EXPECT_EXIT(open_in_fresh_process({{"KF_FAKE_FAIL", "cuInit=" + code}}), ExitedWithCode(KFR_NO_DEVICE),
                "start the CUDA driver: .*" + text);
  }
}

TEST(CudaDeviceDeathTest, DevicesThatDoNotOpen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_in_fresh_process({{"KF_FAKE_FAIL", "cuDevicePrimaryCtxRetain=46"}}), ExitedWithCode(KFR_NO_DEVICE),
              "open CUDA device 0: CUDA_ERROR_DEVICE_UNAVAILABLE.*hint: another process holds this GPU in exclusive mode");
  EXPECT_EXIT(open_in_fresh_process({{"KF_FAKE_FAIL", "cuDevicePrimaryCtxRetain=2"}}), ExitedWithCode(KFR_SYSTEM),
              "open CUDA device 0: CUDA_ERROR_OUT_OF_MEMORY.*hint: free memory on this GPU");
  EXPECT_EXIT(open_in_fresh_process({{"KF_FAKE_CUDA", "devices=0"}}), ExitedWithCode(KFR_NO_DEVICE), "this process sees 0");
  EXPECT_EXIT(open_in_fresh_process({{"KF_FAKE_CUDA", "devices=2"}}, 1), ExitedWithCode(KFR_OK), "");
}

TEST(CudaDeviceDeathTest, AFailureIsNotRemembered) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto again_and_again = [] {
    fake().fail("cuInit", 100, 0, 1);
    fake().fail("cuDevicePrimaryCtxRetain", 46, 0, 1);
    bool no_driver = kfr_device_open(0, nullptr, nullptr) == KFR_NO_DEVICE;
    bool taken = kfr_device_open(0, nullptr, nullptr) == KFR_NO_DEVICE;
    std::exit(no_driver && taken ? kfr_device_open(0, nullptr, nullptr) : 99);
  };
  EXPECT_EXIT(again_and_again(), ExitedWithCode(KFR_OK), "");
}

TEST(CudaDeviceDeathTest, WithoutExportVirtualMemoryIsNotPromised) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto told = [](const char* environment, const char* fail) {
    setenv("KF_FAKE_CUDA", environment, 1);
    setenv("KF_FAKE_FAIL", fail, 1);
    kfr_device_info info{};
    if (kfr_device_open(0, &info, nullptr) != KFR_OK) std::exit(99);
    std::exit(10 * info.vmm + info.read_only);
  };
  EXPECT_EXIT(told("vmm=1", ""), ExitedWithCode(11), "");
  EXPECT_EXIT(told("read_only=0", ""), ExitedWithCode(10), "");
  EXPECT_EXIT(told("vmm=0", ""), ExitedWithCode(0), "");
  EXPECT_EXIT(told("", "cuMemExportToShareableHandle=801"), ExitedWithCode(0), "");
}

TEST(CudaHints, FitTheErrorStruct) {
  kfr_error error{};
  for (int32_t code = 1; code < 1000; ++code) {
    try {
      cuda::refuse(code, "try");
    } catch (const Error& e) { EXPECT_LT(e.hint().size(), sizeof error.hint) << code; }
  }
}

}  // namespace
}  // namespace kf
