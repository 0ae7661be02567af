// What the hooks tell about calls: capture (records for profiling, with payloads) and trace (which plan or reason, in order, for explain).
//
// Neither waits for a device: on CUDA a record counts calls, and who wants times reads them from a profiler by the calls' ranges.
// Ownership: the outermost hooked call owns the record and its time; hooked calls inside it are its children, by name.
// Both are process-wide and slow; while capture is on nothing is served. The thread that turns hooks off (ThreadOff) is not observed.
#ifndef KFT_OBSERVE_H_
#define KFT_OBSERVE_H_

#include <ATen/record_function.h>

#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "describe.h"
#include "serve.h"

namespace kft {

struct Record {
  uint64_t id = 0;  // names the ranges of its calls: `kf#<id>`
  const OpEntry* entry = nullptr;
  std::vector<Argument> arguments;
  std::vector<Output> outputs;
  uint64_t calls = 0;
  int64_t total_ns = 0;
  std::vector<int64_t> samples_ns;  // the first kMaxSamples
  std::set<std::string> children;
  std::vector<std::vector<Argument>> payloads;
  std::vector<uint32_t> align;  // per slot: largest power of two up to 4096 that divided every address seen
  const char* layout = "contiguous";
  bool grad = false;  // grad mode was on and an input asked for a gradient, in any call
  Target target = Target::host;
  int32_t device = KFR_HOST;
};

struct TraceEntry {
  const OpEntry* entry = nullptr;
  std::vector<Argument> arguments;
  std::vector<Output> outputs;
  const kfr_plan* plan = nullptr;
  Reason reason = Reason::kServed;
  uint32_t depth = 0;
  uint64_t order = 0;  // of its start; an outer call comes before what runs inside
};

void capture_begin(uint32_t payloads, uint64_t payload_bytes);
std::vector<Record> capture_end();
void trace_begin();
std::vector<TraceEntry> trace_end();
// Around a fork: no other thread records meanwhile.
void hold_observers();
void release_observers();

// One hooked call while capturing or tracing. Counts depth on this thread for its lifetime.
class Scope {
 public:
  explicit Scope(const OpEntry& entry);
  ~Scope();
  bool outermost() const { return depth_ == 0; }
  uint32_t depth() const { return depth_; }
  std::set<std::string> take_children();

 private:
  uint32_t depth_;
};

// What a captured call is told before it runs: the number of its record, the same for every call with the same words on the same device, and whether
// to copy its arguments (the room for them is reserved). A call whose work goes into a CUDA graph copies nothing: there is no data to copy yet.
struct Ticket {
  uint64_t record = 0;
  bool payload = false;
};
Ticket open_record(const OpEntry& entry, const Call& call);
void record_call(const OpEntry& entry, const Call& call, Ticket ticket, std::vector<Argument> arguments, std::vector<Argument> payload,
                 std::vector<Output> outputs, std::set<std::string> children, int64_t ns);

// A range `kf#<record>` that a profiler sees (torch.profiler, NVTX), open while eager runs a captured call. Of FUNCTION scope, so that torch.profiler
// attributes the kernels launched inside to it and to the operators below it, and not to the operator above, which is the captured one.
inline constexpr const char* kRangePrefix = "kf#";
inline constexpr uint64_t kPayloadRange = ~uint64_t{0};  // `kf#payload`: copies of arguments, no work of the model
class CallRange {
 public:
  explicit CallRange(uint64_t record);

 private:
  at::RecordFunction event_;
};
void record_trace(TraceEntry entry);
uint64_t trace_order();  // numbers calls as they start

Output output_of(const at::Tensor& t, int32_t alias);
// Bytes of all slots together.
uint64_t payload_bytes_of(const Call& call);

}  // namespace kft
#endif  // KFT_OBSERVE_H_
