#include "discovery.h"

#include <ATen/record_function.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "kf_runtime.h"
#include "observe.h"

namespace kft {

namespace {

struct State {
  std::mutex mutex;
  std::optional<at::CallbackHandle> handle;
  std::map<std::string, Discovered> found;
  uint64_t session = 0;
  pid_t process = 0;  // that began; a forked child does not observe, since nobody would read what it found
};
State& state() {
  static auto* made = new State;  // leaked: threads may end events while the process exits
  return *made;
}

// An open event. Events of one thread may end out of order or on another thread (torch._C._profiler._RecordFunctionFast is any object), so an inner one
// keeps those around it, and passes over what has ended.
struct Frame {
  int64_t start = 0, inside_ns = 0;  // the thread's that opened it
  uint64_t session = 0;
  std::atomic<bool> ended{false};
  std::shared_ptr<Frame> parent;
};
struct Context : at::ObserverContext {
  std::shared_ptr<Frame> frame = std::make_shared<Frame>();
};
thread_local std::shared_ptr<Frame> open_frame;  // the innermost, or one that ended elsewhere

void leave_ended() {
  while (open_frame != nullptr && open_frame->ended.load(std::memory_order_acquire))
    open_frame = std::shared_ptr<Frame>(open_frame->parent);
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& event) {
  if (getpid() != state().process) return nullptr;
  if (std::string_view(event.name()).starts_with(kRangePrefix)) return nullptr;  // a mark of the capture, no operator
  auto context = std::make_unique<Context>();
  Frame& frame = *context->frame;
  {
    const std::lock_guard lock(state().mutex);
    frame.session = state().session;
  }
  leave_ended();
  frame.parent = open_frame;
  open_frame = context->frame;
  frame.start = kfr_now_ns();
  return context;
}

void leave(const at::RecordFunction& event, at::ObserverContext* context) {
  const int64_t now = kfr_now_ns();
  if (context == nullptr) return;
  const std::shared_ptr<Frame> frame = static_cast<Context*>(context)->frame;
  frame->ended.store(true, std::memory_order_release);
  if (open_frame != frame) return;  // an event that ends on another thread or out of order has no self time
  leave_ended();
  const int64_t ns = now - frame->start;
  if (open_frame != nullptr) open_frame->inside_ns += ns;
  std::string name = event.name();
  if (const auto op = event.operator_name()) name = op->overload_name.empty() ? op->name : op->name + "." + op->overload_name;
  const std::lock_guard lock(state().mutex);
  if (!state().handle.has_value() || state().session != frame->session) return;
  Discovered& found = state().found[name];
  found.name = name;
  found.calls += 1;
  found.total_ns += ns;
  found.self_ns += ns - frame->inside_ns;
}

}  // namespace

void hold_discovery() { state().mutex.lock(); }
void release_discovery() { state().mutex.unlock(); }

void discovery_begin() {
  const std::lock_guard lock(state().mutex);
  if (state().handle.has_value()) at::removeCallback(*state().handle);
  state().found.clear();
  state().session += 1;
  state().process = getpid();
  state().handle = at::addGlobalCallback(at::RecordFunctionCallback(enter, leave).scopes({at::RecordScope::FUNCTION}));
}

std::vector<Discovered> discovery_end() {
  const std::lock_guard lock(state().mutex);
  if (state().handle.has_value()) at::removeCallback(*state().handle);
  state().handle.reset();
  std::vector<Discovered> list;
  for (auto& [name, found] : state().found) list.push_back(std::move(found));
  state().found.clear();
  std::stable_sort(list.begin(), list.end(), [](const Discovered& a, const Discovered& b) { return a.self_ns > b.self_ns; });
  return list;
}

}  // namespace kft
