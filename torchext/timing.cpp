#include "timing.h"

#include <random>

#include "plans.h"
#include "registry.h"
#include "serve.h"

namespace kft {

namespace {

void need(bool good, const char* text) {
  if (!good) throw RuntimeFault(KFR_BAD_ARGUMENT, text);
}

// Calls one operator over its argument sets, round robin, through one stack that keeps its memory.
class Caller {
 public:
  Caller(const c10::OperatorHandle& op, const std::vector<Stack>& sets) : op_(op), sets_(sets) {
    need(!sets.empty(), "time an operator: no argument sets (expected at least one)");
  }

  void once() {
    const Stack& set = sets_[next_];
    next_ = next_ + 1 == sets_.size() ? 0 : next_ + 1;
    stack_.assign(set.begin(), set.end());
    op_.callBoxed(stack_);
    stack_.clear();  // frees the outputs inside the timed region, as a model does
  }
  void warm() {
    for (size_t i = 0; i < sets_.size(); ++i) once();
  }
  double sample(uint32_t inner) {
    const int64_t before = kfr_now_ns();
    for (uint32_t i = 0; i < inner; ++i) once();
    return static_cast<double>(kfr_now_ns() - before) / inner;
  }

 private:
  const c10::OperatorHandle& op_;
  const std::vector<Stack>& sets_;
  Stack stack_;
  size_t next_ = 0;
};

}  // namespace

std::vector<double> time_calls(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t samples, uint32_t inner, bool plans,
                               bool warm) {
  need(inner > 0, "time an operator: inner is 0 (expected at least 1)");
  Caller caller(op, sets);
  std::vector<double> out;
  out.reserve(samples);
  const auto run = [&] {
    if (warm) caller.warm();
    for (uint32_t i = 0; i < samples; ++i) out.push_back(caller.sample(inner));
  };
  if (plans) {
    run();
  } else {
    const ThreadOff off;
    run();
  }
  return out;
}

Pairs time_pairs(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t blocks, uint32_t inner, uint64_t seed) {
  need(inner > 0, "time an operator: inner is 0 (expected at least 1)");
  // Each side walks the sets on its own, so both see the same memory in the same order.
  Caller eager(op, sets), ours(op, sets);
  Pairs out;
  std::mt19937_64 random(seed);
  const auto time_eager = [&] {
    const ThreadOff off;
    return eager.sample(inner);
  };
  {
    const ThreadOff off;
    eager.warm();
  }
  ours.warm();
  for (uint32_t block = 0; block < blocks; ++block) {
    if ((random() & 1) != 0) {
      out.eager_ns.push_back(time_eager());
      out.ours_ns.push_back(ours.sample(inner));
    } else {
      out.ours_ns.push_back(ours.sample(inner));
      out.eager_ns.push_back(time_eager());
    }
  }
  return out;
}

std::vector<double> time_reference(uint32_t samples) {
  std::vector<double> out(samples);
  kfr_error error{};
  const kfr_parallel parallel = torch_parallel();
  check(kfr_time_reference(KFR_HOST, &parallel, nullptr, samples, out.data(), &error), error);
  return out;
}

}  // namespace kft
