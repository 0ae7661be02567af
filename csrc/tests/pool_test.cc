// pool_test.cc: the partition is at::parallel_for's, every index is met once, and callers do not mix.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <set>
#include <thread>

#include "support.h"

namespace kf {
namespace {

using testing::Pool;
using Range = std::pair<int64_t, int64_t>;

std::set<Range> ranges(const kfr_parallel& parallel, int64_t begin, int64_t end, int64_t grain) {
  struct Seen {
    std::mutex mutex;
    std::set<Range> ranges;
  } seen;
  parallel.run(
      parallel.ctx, begin, end, grain,
      [](void* ctx, int64_t b, int64_t e) {
        auto& s = *static_cast<Seen*>(ctx);
        std::lock_guard lock(s.mutex);
        s.ranges.insert({b, e});
      },
      &seen);
  return seen.ranges;
}

// at::parallel_for: tasks = min(threads, ceildiv(n, grain)), each of ceildiv(n, tasks).
TEST(Pool, CutsAsTorchDoes) {
  Pool four(4);
  EXPECT_EQ(four.parallel.threads, 4);
  EXPECT_EQ(ranges(four.parallel, 0, 100, 10), (std::set<Range>{{0, 25}, {25, 50}, {50, 75}, {75, 100}}));
  EXPECT_EQ(ranges(four.parallel, 0, 100, 40), (std::set<Range>{{0, 34}, {34, 68}, {68, 100}}));
  EXPECT_EQ(ranges(four.parallel, 0, 100, 100), (std::set<Range>{{0, 100}}));
  EXPECT_EQ(ranges(four.parallel, 0, 5, 1), (std::set<Range>{{0, 2}, {2, 4}, {4, 5}}));  // the fourth part is empty
  EXPECT_EQ(ranges(four.parallel, 7, 9, 1), (std::set<Range>{{7, 8}, {8, 9}}));
  EXPECT_TRUE(ranges(four.parallel, 3, 3, 1).empty());
  Pool one(1);
  EXPECT_EQ(ranges(one.parallel, 0, 100, 1), (std::set<Range>{{0, 100}}));
}

TEST(Pool, ManyCallsFromManyThreadsEachSeeTheirOwnSum) {
  Pool pool(3);
  auto sum = [&](int64_t n) {
    std::atomic<int64_t> total{0};
    pool.parallel.run(
        pool.parallel.ctx, 0, n, 1,
        [](void* ctx, int64_t b, int64_t e) {
          int64_t part = 0;
          for (; b < e; ++b) part += b;
          static_cast<std::atomic<int64_t>*>(ctx)->fetch_add(part);
        },
        &total);
    return total.load();
  };
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int64_t c = 1; c <= 4; ++c) {
    callers.emplace_back([&, c] {
      for (int64_t i = 0; i < 300; ++i) wrong += sum(c * 100 + i) != (c * 100 + i) * (c * 100 + i - 1) / 2;
    });
  }
  for (auto& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Pool, RefusesImpossibleSizes) {
  kfr_pool* pool = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_pool_create(0, &pool, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_pool_create(5000, &pool, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_pool_create(1, nullptr, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(pool, nullptr);
  kfr_pool_free(nullptr);
}

// What a kernel finds that does not initialise: read without a word that the compiler could take for an initialisation.
TEST(Pool, LeavesDirtInStackAndRegistersOfEveryThread) {
  Pool two(2);
  struct Found {
    std::mutex mutex;
    std::set<uint32_t> words;
  };
  auto look = [](void* ctx, int64_t, int64_t) {
    uint32_t vector[4], stack[64];
    asm volatile("movups %%xmm9, %0" : "=m"(vector));
    asm volatile("" : "=m"(stack));
    auto& found = *static_cast<Found*>(ctx);
    std::lock_guard lock(found.mutex);
    found.words.insert({vector[0], vector[3], stack[0], stack[31]});  // the last ones lay beside the return addresses of who filled them
  };
  for (int32_t byte : {0xFF, 0x4B}) {
    for (int64_t n : {1, 2}) {  // the caller alone, and every thread
      Found found;
      kfr_pool_dirty(two.pool, byte);
      two.parallel.run(two.parallel.ctx, 0, n, 1, look, &found);
      EXPECT_EQ(found.words, (std::set<uint32_t>{static_cast<uint32_t>(byte) * 0x01010101u}));
    }
  }
  kfr_pool_dirty(two.pool, -1);
  Found found;
  two.parallel.run(two.parallel.ctx, 0, 1, 1, look, &found);  // nothing is written any more; what is there is whatever it is
  EXPECT_FALSE(found.words.empty());
}

// What is kept in stack that no frame of another call reaches would tell a kernel how often it has run.
TEST(PoolDeathTest, HasNoStackFarBelowAFrame) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto keep = [](int64_t parts, uintptr_t below) {
    Pool two(2);
    kfr_pool_dirty(two.pool, 0xFF);
    two.parallel.run(
        two.parallel.ctx, 0, parts, 1,
        [](void* ctx, int64_t, int64_t) {
          char here;
          auto far = reinterpret_cast<uintptr_t>(&here) - *static_cast<uintptr_t*>(ctx);
          *reinterpret_cast<volatile char*>(far) = 1;
        },
        &below);
    _exit(0);
  };
  for (int64_t parts : {1, 2}) {
    EXPECT_EXIT(keep(parts, 128 << 10), ::testing::ExitedWithCode(0), "");
    for (uintptr_t below : {uintptr_t{384} << 10, uintptr_t{8} << 20, uintptr_t{60} << 20})
      EXPECT_EXIT(keep(parts, below), ::testing::KilledBySignal(SIGSEGV), "");
  }
}

}  // namespace
}  // namespace kf
