// What the hooks tell about calls: capture (records for profiling, with payloads) and trace (which plan or reason, in order, for explain).
//
// Ownership: the outermost hooked call owns the record and its time; hooked calls inside it are its children, by name.
// Both are process-wide and slow; while capture is on nothing is served. The thread that turns hooks off (ThreadOff) is not observed.
#ifndef KFT_OBSERVE_H_
#define KFT_OBSERVE_H_

#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "describe.h"
#include "serve.h"

namespace kft {

struct Record {
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

// Whether the next call with these words should copy its arguments (`bytes`); reserves the room.
bool reserve_payload(const OpEntry& entry, const kf::CallWords& words, uint64_t bytes);
void record_call(const OpEntry& entry, const Call& call, std::vector<Argument> arguments, std::vector<Argument> payload,
                 std::vector<Output> outputs, std::set<std::string> children, int64_t ns);
void record_trace(TraceEntry entry);
uint64_t trace_order();  // numbers calls as they start

Output output_of(const at::Tensor& t, int32_t alias);
// Bytes of all slots together.
uint64_t payload_bytes_of(const Call& call);

}  // namespace kft
#endif  // KFT_OBSERVE_H_
