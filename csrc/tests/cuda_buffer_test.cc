// cuda_buffer_test.cc: device memory that two processes share: virtual memory with guards, and the fallback by IPC.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "cuda_support.h"

namespace kf {
namespace {

using namespace testing;
using CudaBufferDeathTest = CudaTest;

constexpr uint64_t kPage = uint64_t{2} << 20;

class CudaBuffer : public CudaTest {
 protected:
  void TearDown() override {
    unsetenv("KERNELFORGE_BUFFERS");
    for (const char* what : {"handle", "mapping", "reservation", "ipc"}) EXPECT_EQ(fake().alive(what), 0) << what;
    CudaTest::TearDown();
  }
};

BufferPtr import(int fd, uint64_t bytes, bool writable) {
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_buffer_import(fd, bytes, writable, 0, &buffer, &error), KFR_OK) << error.text;
  return BufferPtr(buffer);
}

TEST_F(CudaBuffer, IsWholePagesOfZeroesAndBothSidesSeeWrites) {
  BufferPtr ours = device_buffer(5000);
  EXPECT_EQ(kfr_buffer_bytes(ours.get()), kPage);
  EXPECT_EQ(*at<char>(ours, kPage - 1), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(at<char>(ours)) % kPage, 0u);
  BufferPtr theirs = import(kfr_buffer_fd(ours.get()), 5000, true);
  EXPECT_EQ(kfr_buffer_fd(theirs.get()), -1);
  EXPECT_NE(kfr_buffer_data(theirs.get()), kfr_buffer_data(ours.get()));
  *at<char>(theirs, 17) = 5;
  EXPECT_EQ(*at<char>(ours, 17), 5);
  EXPECT_EQ(fcntl(kfr_buffer_fd(ours.get()), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(fake().alive("handle"), 0) << "handles are released at once: mappings hold the memory";
}

TEST_F(CudaBuffer, AnImportOutlivesItsMaker) {
  BufferPtr ours = device_buffer(4096);
  *at<char>(ours) = 4;
  BufferPtr theirs = import(kfr_buffer_fd(ours.get()), 4096, false);
  ours.reset();
  EXPECT_EQ(*at<char>(theirs), 4);
}

TEST_F(CudaBuffer, FillsAPart) {
  BufferPtr b = device_buffer(4096);
  kfr_error error{};
  ASSERT_EQ(kfr_buffer_fill(b.get(), 10, 5, 0xAB, &error), KFR_OK) << error.text;
  EXPECT_EQ(*at<uint8_t>(b, 9), 0);
  EXPECT_EQ(*at<uint8_t>(b, 10), 0xAB);
  EXPECT_EQ(*at<uint8_t>(b, 14), 0xAB);
  EXPECT_EQ(*at<uint8_t>(b, 15), 0);
  EXPECT_EQ(kfr_buffer_fill(b.get(), kPage, 1, 0, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_fill(b.get(), 1, UINT64_MAX, 0, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_fill(nullptr, 0, 1, 0, &error), KFR_BAD_ARGUMENT);
  BufferPtr theirs = import(kfr_buffer_fd(b.get()), 4096, false);
  EXPECT_EQ(kfr_buffer_fill(theirs.get(), 0, 1, 0, &error), KFR_BAD_ARGUMENT);
  EXPECT_NE(std::string(error.text).find("read-only"), std::string::npos);
}

TEST_F(CudaBufferDeathTest, AccessPastEitherEndFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BufferPtr b = device_buffer(4096);
  EXPECT_DEATH(*static_cast<volatile char*>(at<char>(b, kPage)) = 1, "");
  EXPECT_DEATH((void)*static_cast<volatile char*>(at<char>(b) - 1), "");
  EXPECT_DEATH((void)*static_cast<volatile char*>(at<char>(b) - kPage), "");
  EXPECT_DEATH((void)*static_cast<volatile char*>(at<char>(b, 2 * kPage - 1)), "");
  BufferPtr theirs = import(kfr_buffer_fd(b.get()), 4096, false);
  EXPECT_DEATH(*static_cast<volatile char*>(at<char>(theirs)) = 1, "") << "read-only";
  char* gone = at<char>(b);
  b.reset();
  EXPECT_DEATH((void)*static_cast<volatile char*>(gone), "");
}

TEST_F(CudaBuffer, IsWritableWhereTheDriverKnowsNoReadOnlyMemory) {
  BufferPtr ours = device_buffer(4096);
  fake().fail("cuMemSetAccess", 801, 0, 1);
  BufferPtr theirs = import(kfr_buffer_fd(ours.get()), 4096, false);
  *at<char>(theirs) = 3;
  EXPECT_EQ(*at<char>(ours), 3);
}

TEST_F(CudaBuffer, RefusesWhatCannotBe) {
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_buffer_create(0, 0, &buffer, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_create(UINT64_MAX, 0, &buffer, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_create(4096, 7, &buffer, &error), KFR_NO_DEVICE);
  fake().set("memory", 1000);
  EXPECT_EQ(kfr_buffer_create(4096, 0, &buffer, &error), KFR_SYSTEM);
  EXPECT_STREQ(error.text, "make a device buffer of 2097152 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  fake().set("memory", int64_t{1} << 40);
  BufferPtr small = device_buffer(4096);
  EXPECT_EQ(kfr_buffer_import(kfr_buffer_fd(small.get()), kPage + 1, 1, 0, &buffer, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_import(-1, 4096, 1, 0, &buffer, &error), KFR_SYSTEM);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(kfr_buffer_import(pipes[0], 4096, 1, 0, &buffer, &error), KFR_BAD_ARGUMENT);
  EXPECT_NE(std::string(error.text).find("from descriptor"), std::string::npos) << error.text;
  close(pipes[0]);
  close(pipes[1]);
  kfr_buffer* host = nullptr;
  ASSERT_EQ(kfr_buffer_create(4096, KFR_HOST, &host, nullptr), KFR_OK);
  EXPECT_EQ(kfr_buffer_import(kfr_buffer_fd(host), 4096, 1, 0, &buffer, &error), KFR_BAD_ARGUMENT);
  kfr_buffer_free(host);
  EXPECT_EQ(buffer, nullptr);
}

// Each step of making one fails once; whatever it had by then is given back.
TEST_F(CudaBuffer, GivesEverythingBackWhenAStepFails) {
  int64_t memory = fake().alive("memory");
  for (const char* step : {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async",
                           "cuMemExportToShareableHandle", "cuIpcGetMemHandle", "cuMemAlloc_v2"}) {
    bool ipc = std::string(step) == "cuIpcGetMemHandle" || std::string(step) == "cuMemAlloc_v2";
    setenv("KERNELFORGE_BUFFERS", ipc ? "ipc" : "", 1);
    fake().fail(step, 2, 0, 1);
    kfr_buffer* buffer = nullptr;
    kfr_error error{};
    EXPECT_EQ(kfr_buffer_create(4096, 0, &buffer, &error), KFR_SYSTEM) << step;
    EXPECT_EQ(buffer, nullptr);
    for (const char* what : {"handle", "mapping", "reservation"}) EXPECT_EQ(fake().alive(what), 0) << step << ": " << what;
    EXPECT_EQ(fake().alive("memory"), memory) << step;
  }
}

TEST_F(CudaBuffer, FallsBackToIpcCarriedByASealedFile) {
  setenv("KERNELFORGE_BUFFERS", "ipc", 1);
  BufferPtr ours = device_buffer(5000);
  EXPECT_EQ(kfr_buffer_bytes(ours.get()), kPage);
  EXPECT_EQ(*at<char>(ours, kPage - 1), 0);
  int fd = kfr_buffer_fd(ours.get());
  struct stat info{};
  ASSERT_EQ(fstat(fd, &info), 0);
  EXPECT_EQ(info.st_size, 96);
  EXPECT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  unsetenv("KERNELFORGE_BUFFERS");  // the importer tells by the descriptor
  BufferPtr theirs = import(fd, 5000, true);
  *at<char>(theirs, 5) = 6;
  EXPECT_EQ(*at<char>(ours, 5), 6);
  EXPECT_EQ(fake().alive("ipc"), 1);
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_buffer_import(fd, kPage + 1, 1, 0, &buffer, &error), KFR_BAD_ARGUMENT);
  EXPECT_STREQ(error.text, "import a device buffer of 4194304 bytes: it has 2097152 bytes");
  fake().set("devices", 2);
  EXPECT_EQ(kfr_buffer_import(fd, 4096, 1, 1, &buffer, &error), KFR_BAD_ARGUMENT);
  fake().set("devices", 1);
  EXPECT_NE(std::string(error.text).find("it lies on another device"), std::string::npos) << error.text;
  theirs.reset();
  ours.reset();
}

TEST_F(CudaBuffer, FallsBackToCopiesThroughAFile) {
  setenv("KERNELFORGE_BUFFERS", "copy", 1);
  BufferPtr ours = device_buffer(5000);
  unsetenv("KERNELFORGE_BUFFERS");
  EXPECT_EQ(kfr_buffer_bytes(ours.get()), kPage);
  EXPECT_EQ(fcntl(kfr_buffer_fd(ours.get()), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  kfr_error error{};
  *at<char>(ours, 5) = 6;
  ASSERT_EQ(kfr_buffer_push(ours.get(), &error), KFR_OK) << error.text;
  BufferPtr theirs = import(kfr_buffer_fd(ours.get()), 5000, false);
  EXPECT_EQ(*at<char>(theirs, 5), 6) << "an import has pulled";
  *at<char>(theirs, 5) = 7;
  EXPECT_EQ(*at<char>(ours, 5), 6) << "memory of its own";
  ASSERT_EQ(kfr_buffer_push(theirs.get(), &error), KFR_OK) << error.text;
  ASSERT_EQ(kfr_buffer_pull(ours.get(), &error), KFR_OK) << error.text;
  EXPECT_EQ(*at<char>(ours, 5), 7) << "also what should not have been written";
  EXPECT_EQ(kfr_buffer_fill(theirs.get(), 0, 1, 0, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_push(nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_pull(nullptr, &error), KFR_BAD_ARGUMENT);
  fake().fail("cuMemcpyAsync", 700, 0, 1);
  EXPECT_EQ(kfr_buffer_pull(ours.get(), &error), KFR_FAULT) << error.text;
}

// Which way is taken is found out when a device is opened first: in a process of its own. The seals tell the files of the ways apart.
TEST(CudaBufferWaysDeathTest, TheFirstThatTheDriverHasIsTaken) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto seals = [](const char* environment, const char* fail) {
    setenv("KF_FAKE_CUDA", environment, 1);
    setenv("KF_FAKE_FAIL", fail, 1);
    kfr_buffer* buffer = nullptr;
    if (kfr_buffer_create(4096, 0, &buffer, nullptr) != KFR_OK) std::exit(99);
    std::exit(fcntl(kfr_buffer_fd(buffer), F_GET_SEALS));
  };
  EXPECT_EXIT(seals("vmm=0", ""), ::testing::ExitedWithCode(F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), "");
  EXPECT_EXIT(seals("vmm=0", "cuIpcGetMemHandle=801"), ::testing::ExitedWithCode(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), "");
}

TEST_F(CudaBuffer, OneMemoryIsNeitherPushedNorPulled) {
  BufferPtr b = device_buffer(4096);
  fake().fail("cuMemcpyAsync", 700, 0, 1);
  EXPECT_EQ(kfr_buffer_push(b.get(), nullptr), KFR_OK);
  EXPECT_EQ(kfr_buffer_pull(b.get(), nullptr), KFR_OK);
  fake().fail("cuMemcpyAsync", 0, 0, 0);
}

TEST_F(CudaBuffer, AnotherProcessSeesIt) {
  for (const char* way : {"", "ipc", "copy"}) {
    setenv("KERNELFORGE_BUFFERS", way, 1);
    BufferPtr ours = device_buffer(4096);
    *at<int>(ours) = 41;
    ASSERT_EQ(kfr_buffer_push(ours.get(), nullptr), KFR_OK);
    pid_t child = fork();  // the fake survives a fork
    if (child == 0) {
      kfr_buffer* buffer = nullptr;
      if (kfr_buffer_import(kfr_buffer_fd(ours.get()), 4096, 1, 0, &buffer, nullptr) != KFR_OK) _exit(1);
      ++*static_cast<int*>(kfr_buffer_data(buffer));
      if (kfr_buffer_push(buffer, nullptr) != KFR_OK) _exit(2);
      kfr_buffer_free(buffer);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << way;
    ASSERT_EQ(kfr_buffer_pull(ours.get(), nullptr), KFR_OK);
    EXPECT_EQ(*at<int>(ours), 42) << way;
  }
}

TEST_F(CudaBuffer, IsFreedInAThreadOfAnotherDeviceAndAfterAFault) {
  BufferPtr b = device_buffer(4096), c = device_buffer(4096);
  b.reset();
  fake().fail("cuCtxGetCurrent", 709, 0, 1);  // the context is gone: nothing to unmap in, and no reason to die
  c.reset();
}

}  // namespace
}  // namespace kf
