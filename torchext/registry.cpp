#include "registry.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <pthread.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "device.h"
#include "discovery.h"
#include "kf_runtime.h"
#include "observe.h"
#include "plans.h"

namespace kft {

std::atomic<uint32_t> g_mode{0};
constinit thread_local ThreadState g_thread;

void mode_set(uint32_t bits, bool on) {
  if (on) {
    g_mode.fetch_or(bits, std::memory_order_seq_cst);
  } else {
    g_mode.fetch_and(~bits, std::memory_order_seq_cst);
  }
}

const char* reason_name(Reason reason) {
  static constexpr const char* names[] = {"served",  "no_plan",   "disabled",      "key_set",  "device",  "dtype",     "empty",
                                          "no_data", "symbolic",  "no_tensor",     "rule",     "overlap", "too_large", "no_match",
                                          "threads", "alignment", "deterministic", "settings", "memory",  "launch"};
  static_assert(sizeof names / sizeof *names == static_cast<size_t>(Reason::kCount));
  return names[static_cast<size_t>(reason)];
}

bool disabled_by_environment() {
  static const bool disabled = [] {
    const char* value = std::getenv("KERNELFORGE_DISABLE");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return disabled;
}

std::vector<OpEntry*>& entries() {
  static std::vector<OpEntry*>* list = [] {  // leaked: hooks outlive static destruction
    auto* made = new std::vector<OpEntry*>;
    add_unary(*made);
    add_binary(*made);
    add_rows(*made);
    add_vendor(*made);
    for (OpEntry* entry : *made) {
      entry->full_name = entry->name;
      if (*entry->overload != '\0') entry->full_name.append(".").append(entry->overload);
      entry->id = kfr_op_id(entry->full_name.c_str());
    }
    return made;
  }();
  return *list;
}

OpEntry* find_entry(const std::string& full_name) {
  static const auto* index = [] {
    auto* made = new std::unordered_map<std::string, OpEntry*>;
    for (OpEntry* entry : entries()) made->emplace(entry->full_name, entry);
    return made;
  }();
  const auto found = index->find(full_name);
  return found == index->end() ? nullptr : found->second;
}

Whole::Whole(const c10::OperatorName& op) {
  const OpEntry* entry = find_entry(c10::toString(op));
  if (entry != nullptr && (entry->marks & kComposite) != 0 && !at::GradMode::is_enabled()) below_.emplace();
}

namespace {

// Why the overload must not be hooked here, or "".
std::string refusal(const OpEntry& entry, const c10::OperatorHandle& op) {
  if (entry.id < 0) return "the runtime has no number left for it (KFR_MAX_OPS overloads are in use)";
  if (op.hasKernelForDispatchKey(c10::DispatchKey::BackendSelect)) return "torch or another library has a kernel at BackendSelect already";
  if (!(op.schema() == torch::jit::parseSchema("aten::" + std::string(entry.schema_text)))) {
    std::ostringstream text;
    text << "its schema is `" << op.schema() << "` (expected `aten::" << entry.schema_text << "`)";
    return text.str();
  }
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && (entry.marks & kComposite) == 0) {
    if (!op.hasKernelForDispatchKey(c10::DispatchKey::CPU))
      return "it is CompositeImplicit on the CPU and not marked kComposite in ops.def";
    if (torch_has_cuda() && !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA))
      return "it is CompositeImplicit on CUDA and not marked kComposite in ops.def";
  }
  return "";
}

// A child that is forked while another thread publishes or records would find a lock that nobody gives back, and tables half exchanged.
void before_fork() {
  hold_plans();
  hold_observers();
  hold_discovery();
}
void after_fork_in_parent() {
  release_discovery();
  release_observers();
  release_plans();
}

// A forked child (a DataLoader worker) keeps serving. It stops observing, since nobody would read the records; it may begin anew.
void after_fork_in_child() {
  after_fork_in_parent();
  g_mode.fetch_and(~(kCapture | kTrace), std::memory_order_relaxed);
}

}  // namespace

const Installed& install() {
  static std::once_flag once;
  static Installed* installed = new Installed;
  std::call_once(once, [] {
    installed->disabled = disabled_by_environment();
    if (installed->disabled) {
      mode_set(kDisabled, true);
      return;
    }
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    // Leaked on purpose: destroying it would unregister the hooks while other static objects still run operators.
    auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::BackendSelect, __FILE__, __LINE__);
    for (OpEntry* entry : entries()) {
      const auto op = c10::Dispatcher::singleton().findSchema({entry->name, entry->overload});
      if (!op.has_value()) {
        installed->missing.push_back(entry->full_name);
        continue;
      }
      const std::string why = refusal(*entry, *op);
      if (!why.empty()) {
        installed->refused.push_back({entry->full_name, why});
        continue;
      }
      entry->schema = &op->schema();
      entry->hook(*library, entry->full_name.c_str() + std::strlen("aten::"));
      installed->hooked.push_back(entry->full_name);
    }
  });
  return *installed;
}

}  // namespace kft
