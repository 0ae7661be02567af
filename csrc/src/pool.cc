// pool.cc: one task at a time, cut into at most `threads` equal parts; part 0 belongs to the caller, unless dirt is left.
#include "pool.h"

#include <algorithm>
#include <system_error>

#include "dirt.h"

namespace {

constexpr size_t kStackBytes = 256 << 10, kGuardBytes = 64 << 20;  // of a worker; the guard is address space, no memory

pthread_t start(void* (*body)(void*), void* what) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setguardsize(&attributes, kGuardBytes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  int failed = pthread_create(&thread, &attributes, body, what);
  pthread_attr_destroy(&attributes);
  if (failed != 0) throw std::system_error(failed, std::generic_category(), "start a thread of the pool");
  return thread;
}

}  // namespace

void kfr_pool::Task::part(int32_t index) const {
  int64_t from = begin + index * chunk;
  if (from >= end) return;
  if (dirt >= 0) kf::leave_dirt(static_cast<uint8_t>(dirt));
  body(ctx, from, std::min(end, from + chunk));
}

kfr_pool::kfr_pool(int32_t threads) : threads_(threads) {
  workers_.reserve(threads_);  // each keeps its place
  try {
    for (int32_t i = 0; i < threads_; ++i) {
      Worker& worker = workers_.emplace_back(Worker{this, i, {}});
      worker.thread = start(
          [](void* what) -> void* {
            auto* mine = static_cast<Worker*>(what);
            mine->pool->work(mine->index);
            return nullptr;
          },
          &worker);
    }
  } catch (...) {
    workers_.pop_back();  // the one that did not start
    stop();
    throw;
  }
}

kfr_pool::~kfr_pool() { stop(); }

void kfr_pool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (Worker& worker : workers_) pthread_join(worker.thread, nullptr);
}

void kfr_pool::run(int64_t begin, int64_t end, int64_t grain, Body body, void* ctx) {
  int64_t n = end - begin;
  if (n <= 0) return;
  int64_t step = std::max<int64_t>(grain, 1);
  auto parts = static_cast<int32_t>(std::min<int64_t>(threads_, n / step + (n % step != 0)));
  if (parts <= 1 && dirt_ < 0) {
    Task{body, ctx, begin, end, n, 1, dirt_}.part(0);
    return;
  }
  std::lock_guard caller(caller_);
  Task task{body, ctx, begin, end, n / parts + (n % parts != 0), parts, dirt_};
  {
    std::lock_guard lock(mutex_);
    task_ = task;
    ++generation_;
    running_ = parts - task.first();
  }
  wake_.notify_all();
  if (task.first() > 0) task.part(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void kfr_pool::work(int32_t index) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
    if (stopping_) return;
    seen = generation_;
    if (index < task_.first() || index >= task_.parts) continue;
    Task task = task_;
    lock.unlock();
    task.part(index);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}
