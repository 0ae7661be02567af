// One entry per hooked overload, and the process-wide switches that a hook reads first.
//
// Owns: what is hooked, why something is not, the mode word, the per-thread state, fallback counters.
// Refuses: looking at arguments (call.h), running plans (serve.h).
#ifndef KFT_REGISTRY_H_
#define KFT_REGISTRY_H_

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/operator_name.h>
#include <torch/library.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kft {

enum Mark : uint32_t {
  kTemplates = 1,
  kAuthored = 2,
  kComposite = 4,
  kEvalOnly = 8,
  kNoDropout = 16,
  kFromStart = 32,
  kChannelsLast = 64,
  kReadsLater = 128
};
enum class Form : uint8_t { functional, inplace, out };

// Why a call ran on eager although plans for its overload exist. Names in reason_name.
enum class Reason : uint8_t {
  kServed,
  kNoPlan,
  kDisabled,
  kKeySet,
  kDevice,
  kDtype,
  kEmpty,
  kNoData,
  kSymbolic,
  kNoTensor,
  kRule,
  kOverlap,
  kTooLarge,
  kNoMatch,
  kThreads,
  kAlignment,
  kDeterministic,
  kSettings,
  kMemory,
  kLaunch,
  kCount
};
const char* reason_name(Reason reason);

enum Planned : uint32_t { kPlannedHost = 1, kPlannedCuda = 2 };

// The life of an entry is the life of the process; everything but the atomics is written once, at install.
struct alignas(64) OpEntry {
  std::atomic<uint32_t> planned{0};  // kPlannedHost, kPlannedCuda: some published plan is for this overload on such a device
  int32_t id = -1;                   // kfr_op_id
  std::atomic<uint64_t> fallbacks[static_cast<size_t>(Reason::kCount)] = {};
  const char* name = nullptr;      // "aten::relu"
  const char* overload = nullptr;  // "" or "out"
  const char* schema_text = nullptr;
  void (*hook)(torch::Library&, const char*) = nullptr;
  Form form = Form::functional;
  uint32_t marks = 0;
  bool servable = false;  // every output is a tensor
  std::string full_name;  // "aten::relu.out"
  const c10::FunctionSchema* schema = nullptr;

  void count(Reason reason) { fallbacks[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed); }
};

// Bits of the mode word. Zero means: no hook has anything to do.
enum Mode : uint32_t { kPlans = 1, kCapture = 2, kTrace = 4, kDisabled = 8 };
extern std::atomic<uint32_t> g_mode;
void mode_set(uint32_t bits, bool on);

struct ThreadState {
  uint32_t off = 0;    // ThreadOff depth: hooks redispatch at once
  uint32_t depth = 0;  // hooked calls open on this thread, while capturing or tracing
};
extern constinit thread_local ThreadState g_thread;

// Hooks of this thread redispatch at once while one of these lives: no plan, no capture, no trace.
class ThreadOff {
 public:
  ThreadOff() { ++g_thread.off; }
  ~ThreadOff() { --g_thread.off; }
  ThreadOff(const ThreadOff&) = delete;
  ThreadOff& operator=(const ThreadOff&) = delete;
};

// What is called while one of these lives reaches its hook, a composite as well: with grad mode off nothing is recorded, so a composite that is
// hooked is called below autograd's keys, as inference_mode would, and does not dissolve above its hook.
class Whole {
 public:
  explicit Whole(const c10::OperatorName& op);

 private:
  std::optional<at::AutoDispatchBelowADInplaceOrView> below_;
};

struct Refusal {
  std::string overload, why;
};
struct Installed {
  std::vector<std::string> hooked, missing;
  std::vector<Refusal> refused;
  bool disabled = false;  // KERNELFORGE_DISABLE=1: nothing was registered
};
// Registers every hook once; later calls return the same answer. Nothing is ever unregistered. Call before other threads run operators.
const Installed& install();
bool disabled_by_environment();

std::vector<OpEntry*>& entries();                   // in the order of ops.def
OpEntry* find_entry(const std::string& full_name);  // nullptr if it is not in ops.def

// One per file of hooks.
void add_unary(std::vector<OpEntry*>& list);
void add_binary(std::vector<OpEntry*>& list);
void add_rows(std::vector<OpEntry*>& list);
void add_vendor(std::vector<OpEntry*>& list);

}  // namespace kft
#endif  // KFT_REGISTRY_H_
