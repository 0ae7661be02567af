// timing.cc: monotonic clock around `inner` launches in a row; allocation of outputs inside, as torch does it for eager.
#include "timing.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "error.h"
#include "plan.h"

namespace kf {
namespace {

constexpr size_t kAlign = 64;  // torch's own for host tensors
constexpr uint32_t kTimesMax = 1u << 20;

struct FreeMemory {
  void operator()(void* p) const { std::free(p); }
};

void* allocate(uint64_t bytes) { return std::aligned_alloc(kAlign, (std::max<uint64_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign); }

// One set of slots, ready to launch again and again: what is NULL in it is allocated before each launch and freed after.
class Timed {
 public:
  Timed(const kfr_plan& plan, void* const* slots) : plan_(plan), slots_(slots, slots + plan.slots()) {
    size_t inputs = plan.inputs.size(), outputs = plan.outputs.size();
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i] != nullptr) continue;
      if (i < inputs) throw Error(KFR_BAD_ARGUMENT, "time " + ticked(plan.id) + ": input slot " + std::to_string(i) + " is NULL");
      if (i >= inputs + outputs)
        missing_.push_back({i, plan.workspace_bytes[i - inputs - outputs]});
      else if (plan.outputs[i - inputs].alias < 0)
        missing_.push_back({i, plan.outputs[i - inputs].span_bytes});
    }
  }
  ~Timed() { release(); }
  Timed(Timed&&) = default;
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  void launch(const kfr_parallel* parallel, void* stream) {
    for (const Missing& m : missing_) {
      slots_[m.slot] = allocate(m.bytes);
      if (slots_[m.slot] == nullptr)
        throw Error(KFR_SYSTEM, "time " + ticked(plan_.id) + ": no memory for " + std::to_string(m.bytes) + " bytes");
    }
    plan_.program->launch(slots_.data(), parallel, stream);
    release();
  }

 private:
  struct Missing {
    uint32_t slot;
    uint64_t bytes;
  };
  void release() {
    for (const Missing& m : missing_) {
      std::free(slots_[m.slot]);
      slots_[m.slot] = nullptr;
    }
  }
  const kfr_plan& plan_;
  std::vector<void*> slots_;
  std::vector<Missing> missing_;
};

}  // namespace

int64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

void time_plan(const kfr_plan& plan, const TimedSets& sets, uint32_t samples, uint32_t inner, bool warm, const kfr_parallel* parallel,
               void* stream, double* out_ns) {
  if (sets.nslots != plan.slots()) {
    throw Error(KFR_BAD_ARGUMENT, "time " + ticked(plan.id) + ": " + std::to_string(sets.nslots) + " slots in a set (expected " +
                                      std::to_string(plan.slots()) + ")");
  }
  if (sets.nsets == 0 || samples == 0 || inner == 0 || sets.nsets > kTimesMax || samples > kTimesMax || inner > kTimesMax) {
    throw Error(KFR_BAD_ARGUMENT, "time " + ticked(plan.id) + ": sets, samples and inner must each be 1 to " + std::to_string(kTimesMax));
  }
  std::vector<Timed> calls;
  calls.reserve(sets.nsets);
  for (uint32_t i = 0; i < sets.nsets; ++i) calls.emplace_back(plan, sets.sets + size_t{i} * sets.nslots);
  if (warm) {
    for (Timed& call : calls) call.launch(parallel, stream);
  }
  size_t next = 0;
  for (uint32_t s = 0; s < samples; ++s) {
    int64_t start = now_ns();
    for (uint32_t k = 0; k < inner; ++k) {
      calls[next].launch(parallel, stream);
      if (++next == calls.size()) next = 0;
    }
    out_ns[s] = static_cast<double>(now_ns() - start) / inner;
  }
}

void time_reference(const kfr_parallel& parallel, uint32_t samples, double* out_ns) {
  if (parallel.run == nullptr || parallel.threads < 1 || parallel.threads > 4096 || samples == 0 || samples > kTimesMax) {
    throw Error(KFR_BAD_ARGUMENT,
                "time the reference kernel: bad `parallel` or sample count (expected 1 to " + std::to_string(kTimesMax) + " samples)");
  }
  // a[i] = b[i] + s * c[i] over 4 MiB a thread, three arrays together: larger than a core's L2, so it sees cache and memory of the machine.
  constexpr int64_t kBytesAThread = int64_t{4} << 20;
  int64_t grain = kBytesAThread / 3 / static_cast<int64_t>(sizeof(float)), n = grain * parallel.threads;
  struct Triad {
    float *a, *b, *c;
  };
  std::unique_ptr<float, FreeMemory> memory(static_cast<float*>(allocate(static_cast<uint64_t>(3 * n) * sizeof(float))));
  if (!memory) throw Error(KFR_SYSTEM, "time the reference kernel: no memory");
  Triad triad{memory.get(), memory.get() + n, memory.get() + 2 * n};
  auto init = [](void* ctx, int64_t begin, int64_t end) {
    auto& t = *static_cast<Triad*>(ctx);
    for (int64_t i = begin; i < end; ++i) t.a[i] = 0, t.b[i] = 1, t.c[i] = 2;
  };
  auto body = [](void* ctx, int64_t begin, int64_t end) {
    auto& t = *static_cast<Triad*>(ctx);
    for (int64_t i = begin; i < end; ++i) t.a[i] = t.b[i] + 0.5f * t.c[i];
  };
  parallel.run(parallel.ctx, 0, n, grain, init, &triad);  // each page first touched by the thread that will use it
  parallel.run(parallel.ctx, 0, n, grain, body, &triad);
  for (uint32_t s = 0; s < samples; ++s) {
    int64_t start = now_ns();
    parallel.run(parallel.ctx, 0, n, grain, body, &triad);
    out_ns[s] = static_cast<double>(now_ns() - start);
  }
}

}  // namespace kf
