// buffer_test.cc: shared memory with guards: what is shared, what faults, what is refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "support.h"

namespace kf {
namespace {

struct Free {
  void operator()(kfr_buffer* b) const { kfr_buffer_free(b); }
};
using BufferPtr = std::unique_ptr<kfr_buffer, Free>;

BufferPtr create(uint64_t bytes) {
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_buffer_create(bytes, KFR_HOST, &buffer, &error), KFR_OK) << error.text;
  return BufferPtr(buffer);
}

BufferPtr import(int fd, uint64_t bytes, bool writable) {
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_buffer_import(fd, bytes, writable, KFR_HOST, &buffer, &error), KFR_OK) << error.text;
  return BufferPtr(buffer);
}

volatile char* bytes_of(const BufferPtr& b) { return static_cast<volatile char*>(kfr_buffer_data(b.get())); }

TEST(Buffer, IsWholePagesOfZeroesAndBothSidesSeeWrites) {
  BufferPtr ours = create(5000);
  EXPECT_EQ(kfr_buffer_bytes(ours.get()), 8192u);
  EXPECT_EQ(bytes_of(ours)[8191], 0);
  BufferPtr theirs = import(kfr_buffer_fd(ours.get()), 5000, true);
  EXPECT_EQ(kfr_buffer_fd(theirs.get()), -1);
  bytes_of(ours)[17] = 5;
  EXPECT_EQ(bytes_of(theirs)[17], 5);
  bytes_of(theirs)[8191] = 9;
  EXPECT_EQ(bytes_of(ours)[8191], 9);
}

using BufferDeathTest = ::testing::Test;

TEST(BufferDeathTest, AccessPastEitherEndFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BufferPtr b = create(4096);
  EXPECT_DEATH(bytes_of(b)[4096] = 1, "");
  EXPECT_DEATH(bytes_of(b)[-1] = 1, "");
  EXPECT_DEATH((void)bytes_of(b)[4096], "");
  EXPECT_DEATH((void)bytes_of(b)[-1], "");
  EXPECT_DEATH((void)bytes_of(b)[4096 + 500000], "");
  bytes_of(b)[0] = 1;
  bytes_of(b)[4095] = 1;
}

TEST(BufferDeathTest, AReadOnlyImportCannotBeWritten) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BufferPtr ours = create(4096);
  BufferPtr theirs = import(kfr_buffer_fd(ours.get()), 4096, false);
  bytes_of(ours)[3] = 8;
  EXPECT_EQ(bytes_of(theirs)[3], 8);
  EXPECT_DEATH(bytes_of(theirs)[3] = 1, "");
  EXPECT_DEATH((void)bytes_of(theirs)[4096], "");
}

TEST(Buffer, TheImporterCannotShrinkOrGrowTheFile) {
  BufferPtr b = create(8192);
  EXPECT_NE(ftruncate(kfr_buffer_fd(b.get()), 4096), 0);
  EXPECT_NE(ftruncate(kfr_buffer_fd(b.get()), 16384), 0);
  EXPECT_NE(fcntl(kfr_buffer_fd(b.get()), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(Buffer, DescriptorsAreClosedOnExec) {
  BufferPtr b = create(4096);
  EXPECT_EQ(fcntl(kfr_buffer_fd(b.get()), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(Buffer, AnImportOutlivesItsMaker) {
  BufferPtr ours = create(4096);
  bytes_of(ours)[0] = 4;
  BufferPtr theirs = import(kfr_buffer_fd(ours.get()), 4096, false);
  ours.reset();
  EXPECT_EQ(bytes_of(theirs)[0], 4);
}

TEST(Buffer, RefusesWhatCannotBe) {
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_buffer_create(0, KFR_HOST, &buffer, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_create(UINT64_MAX, KFR_HOST, &buffer, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_buffer_create(4096, KFR_HOST, nullptr, &error), KFR_BAD_ARGUMENT);
  BufferPtr small = create(4096);
  EXPECT_EQ(kfr_buffer_import(kfr_buffer_fd(small.get()), 8192, 1, KFR_HOST, &buffer, &error), KFR_BAD_ARGUMENT);
  EXPECT_NE(std::string(error.text).find("it has 4096 bytes"), std::string::npos) << error.text;
  EXPECT_EQ(kfr_buffer_import(-1, 4096, 1, KFR_HOST, &buffer, &error), KFR_SYSTEM);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(kfr_buffer_import(pipes[0], 4096, 0, KFR_HOST, &buffer, &error), KFR_BAD_ARGUMENT);
  close(pipes[0]);
  close(pipes[1]);
  EXPECT_EQ(buffer, nullptr);
  EXPECT_EQ(kfr_buffer_data(nullptr), nullptr);
  EXPECT_EQ(kfr_buffer_bytes(nullptr), 0u);
  EXPECT_EQ(kfr_buffer_fd(nullptr), -1);
  kfr_buffer_free(nullptr);
}

}  // namespace
}  // namespace kf
