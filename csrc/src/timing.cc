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
  Timed(const Program& program, const Series& series, uint32_t index) : program_(program) {
    void* const* slots = series.sets.set(index);
    slots_.assign(slots, slots + series.sets.nslots);
    for (const Series::Missing& m : series.missing) {
      if (slots_[m.slot] == nullptr) missing_.push_back(m);
    }
  }
  ~Timed() { release(); }
  Timed(Timed&&) = default;
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  void launch(const kfr_parallel* parallel) {
    for (const Series::Missing& m : missing_) {
      slots_[m.slot] = allocate(m.bytes);
      if (slots_[m.slot] == nullptr) throw Error(KFR_SYSTEM, "no memory for " + std::to_string(m.bytes) + " bytes");
    }
    program_.launch(slots_.data(), parallel, nullptr);
    release();
  }

 private:
  void release() {
    for (const Series::Missing& m : missing_) {
      std::free(slots_[m.slot]);
      slots_[m.slot] = nullptr;
    }
  }
  const Program& program_;
  std::vector<void*> slots_;
  std::vector<Series::Missing> missing_;
};

// Inputs come first and must be there; an output that is an input has no memory of its own.
std::vector<Series::Missing> missing_slots(const kfr_plan& plan, const TimedSets& sets) {
  auto inputs = static_cast<uint32_t>(plan.inputs.size()), outputs = static_cast<uint32_t>(plan.outputs.size());
  for (uint32_t set = 0; set < sets.nsets; ++set) {
    for (uint32_t i = 0; i < inputs; ++i) {
      if (sets.set(set)[i] == nullptr) throw Error(KFR_BAD_ARGUMENT, "input slot " + std::to_string(i) + " is NULL");
    }
  }
  std::vector<Series::Missing> missing;
  for (uint32_t i = inputs; i < sets.nslots; ++i) {
    if (i >= inputs + outputs)
      missing.push_back({i, plan.workspace_bytes[i - inputs - outputs]});
    else if (plan.outputs[i - inputs].alias < 0)
      missing.push_back({i, plan.outputs[i - inputs].span_bytes});
  }
  return missing;
}

}  // namespace

int64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

void check_samples(const char* what, uint32_t samples) {
  if (samples >= 1 && samples <= kTimesMax) return;
  throw Error(KFR_BAD_ARGUMENT,
              std::string(what) + ": " + std::to_string(samples) + " samples (expected 1 to " + std::to_string(kTimesMax) + ")");
}

void time_plan(const kfr_plan& plan, const TimedSets& sets, uint32_t samples, uint32_t inner, bool warm, const kfr_parallel* parallel,
               void* stream, double* out_ns) {
  try {
    if (sets.nslots != plan.slots()) {
      throw Error(KFR_BAD_ARGUMENT, std::to_string(sets.nslots) + " slots in a set (expected " + std::to_string(plan.slots()) + ")");
    }
    if (sets.nsets == 0 || samples == 0 || inner == 0 || sets.nsets > kTimesMax || samples > kTimesMax || inner > kTimesMax)
      throw Error(KFR_BAD_ARGUMENT, "sets, samples and inner must each be 1 to " + std::to_string(kTimesMax));
    plan.program->time({sets, samples, inner, warm, missing_slots(plan, sets)}, parallel, stream, out_ns);
  } catch (const Error& e) { throw e.within("time " + ticked(plan.id)); }
}

void time_on_host(const Program& program, const Series& series, const kfr_parallel* parallel, double* out_ns) {
  std::vector<Timed> calls;
  calls.reserve(series.sets.nsets);
  for (uint32_t i = 0; i < series.sets.nsets; ++i) calls.emplace_back(program, series, i);
  if (series.warm) {
    for (Timed& call : calls) call.launch(parallel);
  }
  size_t next = 0;
  for (uint32_t s = 0; s < series.samples; ++s) {
    int64_t start = now_ns();
    for (uint32_t k = 0; k < series.inner; ++k) {
      calls[next].launch(parallel);
      if (++next == calls.size()) next = 0;
    }
    out_ns[s] = static_cast<double>(now_ns() - start) / series.inner;
  }
}

void time_host_reference(const kfr_parallel* given, uint32_t samples, double* out_ns) {
  if (given == nullptr || given->run == nullptr || given->threads < 1 || given->threads > 4096)
    throw Error(KFR_BAD_ARGUMENT, "time the reference kernel: no `parallel` of 1 to 4096 threads (the host needs one)");
  check_samples("time the reference kernel", samples);
  const kfr_parallel& parallel = *given;
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
