// pool.h: a fixed pool of threads with the partition of at::parallel_for, so that a kernel meets the same ranges in worker and extension.
#ifndef KF_POOL_H_
#define KF_POOL_H_

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kf_runtime.h"

// `threads` counts the caller, who works too. Workers sleep on a condition variable between calls. Their stacks are small and end in a wide guard:
// what a kernel would keep far below its frame, to find it there at its next call, it finds no memory for. Where dirt is left, which is where the
// outputs count and not the time, part 0 has such a thread as well instead of the caller's.
struct kfr_pool {
 public:
  explicit kfr_pool(int32_t threads);  // throws std::system_error when a thread cannot be made
  ~kfr_pool();
  kfr_pool(const kfr_pool&) = delete;
  kfr_pool& operator=(const kfr_pool&) = delete;

  using Body = void (*)(void* ctx, int64_t begin, int64_t end);
  // One call at a time; a second caller waits. Not from inside a body.
  void run(int64_t begin, int64_t end, int64_t grain, Body body, void* ctx);
  int32_t threads() const { return threads_; }
  // Every part of later runs finds this byte in its thread's free stack and vector registers; -1: whatever is there, and part 0 is the caller's.
  void leave(int32_t dirt) { dirt_ = dirt; }

 private:
  struct Task {
    Body body = nullptr;
    void* ctx = nullptr;
    int64_t begin = 0, end = 0, chunk = 0;
    int32_t parts = 0, dirt = -1;
    int32_t first() const { return dirt < 0; }  // the workers' first part
    void part(int32_t index) const;
  };
  struct Worker {
    kfr_pool* pool;
    int32_t index;
    pthread_t thread;
  };
  void work(int32_t index);
  void stop();

  const int32_t threads_;
  std::mutex caller_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  int32_t dirt_ = -1;            // the caller's
  Task task_;                    // guarded by mutex_
  uint64_t generation_ = 0;      // of the task; guarded by mutex_
  int32_t running_ = 0;          // workers still in it; guarded by mutex_
  bool stopping_ = false;        // guarded by mutex_
  std::vector<Worker> workers_;  // one a part
};

#endif  // KF_POOL_H_
