#include "discovery.h"

#include <ATen/record_function.h>
#include <unistd.h>

#include <algorithm>
#include <map>
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
  pid_t process = 0;  // that began; a forked child does not observe, since the lock may be held by a thread that does not exist there
};
State& state() {
  static auto* made = new State;  // leaked: threads may end events while the process exits
  return *made;
}

struct Frame : at::ObserverContext {
  int64_t start = 0, inside_ns = 0;
  uint64_t session = 0;
  Frame* parent = nullptr;
};
thread_local Frame* open_frame = nullptr;

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& event) {
  if (getpid() != state().process) return nullptr;
  if (std::string_view(event.name()).starts_with(kRangePrefix)) return nullptr;  // a mark of the capture, no operator
  auto frame = std::make_unique<Frame>();
  {
    const std::lock_guard lock(state().mutex);
    frame->session = state().session;
  }
  frame->parent = open_frame;
  open_frame = frame.get();
  frame->start = kfr_now_ns();
  return frame;
}

void leave(const at::RecordFunction& event, at::ObserverContext* context) {
  const int64_t now = kfr_now_ns();
  auto* frame = static_cast<Frame*>(context);
  if (frame == nullptr || open_frame != frame) return;  // an event that ends on another thread or out of order has no self time
  open_frame = frame->parent;
  const int64_t ns = now - frame->start;
  if (frame->parent != nullptr) frame->parent->inside_ns += ns;
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
