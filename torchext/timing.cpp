#include "timing.h"

#include <algorithm>
#include <random>

#include "device.h"
#include "plans.h"
#include "registry.h"
#include "serve.h"

namespace kft {

namespace {

void need(bool good, const char* text) {
  if (!good) throw RuntimeFault(KFR_BAD_ARGUMENT, text);
}

// The CUDA device of the first argument that has one, or KFR_HOST.
int32_t device_of(const std::vector<Stack>& sets) {
  const auto cuda = [](const at::Tensor& t) { return t.defined() && t.is_cuda(); };
  for (const Stack& set : sets) {
    for (const c10::IValue& value : set) {
      if (value.isTensor() && cuda(value.toTensor())) return value.toTensor().get_device();
      if (!value.isTensorList()) continue;
      for (const at::Tensor& t : value.toTensorVector()) {
        if (cuda(t)) return t.get_device();
      }
    }
  }
  return KFR_HOST;
}

void need_host(const std::vector<Stack>& sets) {
  const int32_t device = device_of(sets);
  if (device == KFR_HOST) return;
  throw RuntimeFault(KFR_BAD_ARGUMENT,
                     "time an operator by the host's clock: an argument is on cuda:" + std::to_string(device) +
                         " (expected host tensors, whose call returns when its work is done)\n" +
                         "hint: capture run_calls in a torch.cuda.graph and time it with graph_time; host_cost times the host's part");
}

// Runs `body` with this thread's hooks off, unless plans are wanted.
template <class F>
void with_plans(bool plans, F&& body) {
  if (plans) return body();
  const ThreadOff off;
  body();
}

// Calls one operator over its argument sets, round robin, through one stack that keeps its memory. bare: as if it had no hook.
class Caller {
 public:
  Caller(const c10::OperatorHandle& op, const std::vector<Stack>& sets, bool bare = false)
      : op_(op), sets_(sets), bare_(bare), whole_(op.operator_name()) {
    need(!sets.empty(), "time an operator: no argument sets (expected at least one)");
  }

  void once() {
    const Stack& set = sets_[next_];
    next_ = next_ + 1 == sets_.size() ? 0 : next_ + 1;
    stack_.assign(set.begin(), set.end());
    if (bare_) {
      op_.redispatchBoxed(below_hooks(), &stack_);
    } else {
      op_.callBoxed(stack_);
    }
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
  // What the dispatcher would compute if the hooks' key had no kernel.
  c10::DispatchKeySet below_hooks() const {
    c10::DispatchKeySet keys;
    for (const c10::IValue& value : stack_) {
      if (value.isTensor()) {
        keys = keys | value.toTensor().key_set();
      } else if (value.isTensorList()) {
        for (const at::Tensor& t : value.toTensorList()) keys = keys | t.key_set();
      }
    }
    return c10::impl::computeDispatchKeySet(keys, c10::DispatchKeySet(c10::DispatchKeySet::FULL).remove(c10::DispatchKey::BackendSelect));
  }

  const c10::OperatorHandle& op_;
  const std::vector<Stack>& sets_;
  const bool bare_;
  const Whole whole_;
  Stack stack_;
  size_t next_ = 0;
};

// Waits, as host code does, for all work on the current stream of the sets' device.
class Idle {
 public:
  explicit Idle(const std::vector<Stack>& sets) : device_(device_of(sets)) {}
  void operator()() const {
    kfr_error error{};
    check(kfr_stream_wait(device_, current_stream(device_), &error), error);
  }

 private:
  const int32_t device_;
};

void need_burst(uint32_t inner) {
  need(inner > 0 && inner <= kMaxBurst, "time an operator on the host: inner must be 1 to 256 (more could fill the device's queue)");
}

}  // namespace

std::vector<double> time_calls(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t samples, uint32_t inner, bool plans,
                               bool warm) {
  need(inner > 0, "time an operator: inner is 0 (expected at least 1)");
  need_host(sets);
  Caller caller(op, sets);
  std::vector<double> out;
  out.reserve(samples);
  with_plans(plans, [&] {
    if (warm) caller.warm();
    for (uint32_t i = 0; i < samples; ++i) out.push_back(caller.sample(inner));
  });
  return out;
}

std::vector<double> host_cost(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t samples, uint32_t inner, bool plans,
                              bool warm) {
  need_burst(inner);
  const Idle wait(sets);
  Caller caller(op, sets);
  std::vector<double> out;
  out.reserve(samples);
  with_plans(plans, [&] {
    if (warm) caller.warm();
    for (uint32_t i = 0; i < samples; ++i) {
      wait();
      out.push_back(caller.sample(inner));
    }
    wait();
  });
  return out;
}

HookCost hook_cost(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t blocks, uint32_t inner, uint64_t seed) {
  need_burst(inner);
  need(c10::InferenceMode::is_enabled(),
       "time a hook: inference_mode is off (expected on: with autograd's keys a call does not end at the backend)");
  const Idle wait(sets);
  Caller bare(op, sets, true), hooked(op, sets);
  bare.warm();
  hooked.warm();
  HookCost out;
  std::mt19937_64 random(seed);
  const auto sample = [&](Caller& caller, std::vector<double>& into) {
    wait();
    into.push_back(caller.sample(inner));
  };
  for (uint32_t block = 0; block < blocks; ++block) {
    const bool first = (random() & 1) != 0;
    if (first) sample(bare, out.bare_ns);
    sample(hooked, out.hooked_ns);
    if (!first) sample(bare, out.bare_ns);
  }
  wait();
  return out;
}

void run_calls(const c10::OperatorHandle& op, const std::vector<Stack>& sets, uint32_t n, bool plans) {
  Caller caller(op, sets);
  with_plans(plans, [&] {
    for (uint32_t i = 0; i < n; ++i) caller.once();
  });
}

Blocks time_blocks(const c10::OperatorHandle& op, const std::vector<Stack>& sets, const BlockPlan& plan, uint64_t seed) {
  need(plan.inner > 0, "time an operator: inner is 0 (expected at least 1)");
  need_host(sets);
  // One walk over the sets for all sides: each sample takes the next ones, so that none finds in a cache what another side has just read.
  Caller caller(op, sets);
  Blocks out;
  std::mt19937_64 random(seed);
  with_plans(false, [&] { caller.warm(); });
  caller.warm();
  struct Side {
    std::vector<double>* times;
    bool plans;
    uint32_t more;  // calls that do not count
  };
  std::vector<Side> sides{{&out.eager_ns, false, plan.padding}, {&out.ours_ns, true, 0}};
  if (plan.control) sides.push_back({&out.again_ns, false, plan.padding});
  for (uint32_t block = 0; block < plan.blocks; ++block) {
    std::shuffle(sides.begin(), sides.end(), random);
    for (const Side& side : sides) {
      with_plans(side.plans, [&] {
        const uint32_t calls = plan.inner + side.more;
        side.times->push_back(caller.sample(calls) * calls / plan.inner);
      });
    }
  }
  return out;
}

namespace {

// The current stream of a device when its work is done; NULL for the host. What is wrong with the device is told by the runtime, with a hint.
void* idle_stream(int32_t device, const char* what) {
  if (device == KFR_HOST) return nullptr;
  need_cuda(what);
  kfr_error error{};
  check(kfr_device_open(device, nullptr, &error), error);
  void* const stream = current_stream(device);
  check(kfr_stream_wait(device, stream, &error), error);
  return stream;
}

}  // namespace

std::vector<double> graph_time(int32_t device, void* graph_exec, void* stream, uint32_t samples) {
  std::vector<double> out(samples);
  kfr_error error{};
  idle_stream(device, "time a CUDA graph");
  check(kfr_graph_time(device, graph_exec, stream, samples, out.data(), &error), error);
  return out;
}

std::vector<double> time_reference(uint32_t samples, int32_t device) {
  std::vector<double> out(samples);
  kfr_error error{};
  const kfr_parallel parallel = torch_parallel();
  void* const stream = idle_stream(device, "time the reference kernel on a CUDA device");
  check(kfr_time_reference(device, &parallel, stream, samples, out.data(), &error), error);
  return out;
}

}  // namespace kft
