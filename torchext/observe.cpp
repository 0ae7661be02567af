#include "observe.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "device.h"
#include "kf_runtime.h"

namespace kft {

namespace {

constexpr size_t kMaxSamples = 256;
constexpr size_t kMaxTrace = 1u << 20;

// The words of a call do not name its device.
struct Key {
  int32_t op, device;
  std::vector<int64_t> words;
  auto operator<=>(const Key&) const = default;
};

Key key_of(const OpEntry& entry, const Call& call) {
  return {entry.id, call.device(), std::vector<int64_t>(call.words().data(), call.words().data() + call.words().count())};
}

constexpr size_t kNoRecord = ~size_t{0};

// A distinct call from its first start on; its record is made when one of its calls has returned.
struct Opened {
  uint64_t id = 0;
  uint32_t payloads = 0;  // copies promised so far
  size_t record = kNoRecord;
};

struct Capture {
  std::mutex mutex;
  uint32_t payloads = 0;
  uint64_t payload_bytes_left = 0;
  uint64_t next_id = 0;  // never starts anew: a range names one record of one capture
  std::map<Key, Opened> opened;
  std::vector<Record> records;  // in order of first appearance
};

struct Trace {
  std::mutex mutex;
  std::vector<TraceEntry> entries;
};

// Leaked: threads may still leave hooks while the process exits.
Capture& capture() {
  static auto* made = new Capture;
  return *made;
}
Trace& trace() {
  static auto* made = new Trace;
  return *made;
}

// Hooked calls inside the outermost one, on this thread.
std::set<std::string>& children() {
  static thread_local std::set<std::string> names;
  return names;
}

// The descriptors of the tensor arguments in slot order.
void tensors_of(const std::vector<Argument>& arguments, std::vector<const Argument*>& out) {
  for (const Argument& a : arguments) {
    if (std::string_view(a.kind) == "tensor") out.push_back(&a);
    tensors_of(a.items, out);
  }
}

// Whether eager gave a written tensor another geometry (it resizes an `out` of the wrong size): no plan can do that.
bool resized(const std::vector<Argument>& arguments, const std::vector<Output>& outputs) {
  std::vector<const Argument*> slots;
  tensors_of(arguments, slots);
  return std::any_of(outputs.begin(), outputs.end(), [&](const Output& o) {
    return o.alias >= 0 && (o.sizes != slots[o.alias]->sizes || o.strides != slots[o.alias]->strides || o.dtype != slots[o.alias]->dtype);
  });
}

uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return static_cast<uint32_t>(std::min<uintptr_t>(address & (~address + 1), 4096));
}

}  // namespace

Scope::Scope(const OpEntry& entry) : depth_(g_thread.depth++) {
  if (depth_ == 0) {
    children().clear();
  } else {
    children().insert(entry.full_name);
  }
}
Scope::~Scope() { --g_thread.depth; }
std::set<std::string> Scope::take_children() { return std::move(children()); }

CallRange::CallRange(uint64_t record) : event_(at::RecordScope::FUNCTION) {
  if (!event_.isActive()) return;
  const std::string name = kRangePrefix + (record == kPayloadRange ? std::string("payload") : std::to_string(record));
  event_.before(std::string_view(name));
}

Output output_of(const at::Tensor& t, int32_t alias) { return {dtype_of(t.scalar_type()), t.sizes().vec(), t.strides().vec(), alias}; }

uint64_t payload_bytes_of(const Call& call) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < call.slots(); ++i) bytes += span_bytes(call.slot(i));
  return bytes;
}

void capture_begin(uint32_t payloads, uint64_t payload_bytes) {
  Capture& state = capture();
  {
    const std::lock_guard lock(state.mutex);
    state.payloads = payloads;
    state.payload_bytes_left = payload_bytes;
    state.opened.clear();
    state.records.clear();
  }
  mode_set(kCapture, true);
}

std::vector<Record> capture_end() {
  mode_set(kCapture, false);
  Capture& state = capture();
  const std::lock_guard lock(state.mutex);
  state.opened.clear();
  return std::move(state.records);
}

Ticket open_record(const OpEntry& entry, const Call& call) {
  const uint64_t bytes = payload_bytes_of(call);
  const bool into_graph = call.device() != KFR_HOST && stream_is_capturing(current_stream(call.device()));
  Capture& state = capture();
  const std::lock_guard lock(state.mutex);
  const auto [position, fresh] = state.opened.try_emplace(key_of(entry, call));
  Opened& opened = position->second;
  if (fresh) opened.id = state.next_id++;
  const bool payload = !into_graph && opened.payloads < state.payloads && bytes <= state.payload_bytes_left;
  if (payload) {
    ++opened.payloads;
    state.payload_bytes_left -= bytes;
  }
  return {opened.id, payload};
}

void record_call(const OpEntry& entry, const Call& call, Ticket ticket, std::vector<Argument> arguments, std::vector<Argument> payload,
                 std::vector<Output> outputs, std::set<std::string> children, int64_t ns) {
  if (resized(arguments, outputs)) return;
  Capture& state = capture();
  const std::lock_guard lock(state.mutex);
  if ((g_mode.load(std::memory_order_relaxed) & kCapture) == 0) return;  // ended meanwhile
  const auto opened = state.opened.find(key_of(entry, call));
  if (opened == state.opened.end() || opened->second.id != ticket.record) return;  // another capture began meanwhile
  if (opened->second.record == kNoRecord) {
    opened->second.record = state.records.size();
    Record& made = state.records.emplace_back();
    made.id = ticket.record;
    made.device = call.device();
    made.entry = &entry;
    made.arguments = std::move(arguments);
    made.outputs = std::move(outputs);
    made.layout = layout_of(call.slot(0));
    made.align.assign(call.slots(), 4096);
    made.target = call.target();
  }
  Record& record = state.records[opened->second.record];
  record.calls += 1;
  record.total_ns += ns;
  if (record.samples_ns.size() < kMaxSamples) record.samples_ns.push_back(ns);
  record.children.merge(children);
  if (!payload.empty()) record.payloads.push_back(std::move(payload));
  bool wants_grad = false;
  for (uint32_t i = 0; i < call.slots(); ++i) {
    record.align[i] = std::min(record.align[i], alignment_of(call.slot(i).const_data_ptr()));
    wants_grad |= call.slot(i).requires_grad();
  }
  record.grad |= wants_grad && at::GradMode::is_enabled();
}

void trace_begin() {
  Trace& state = trace();
  {
    const std::lock_guard lock(state.mutex);
    state.entries.clear();
  }
  mode_set(kTrace, true);
}

std::vector<TraceEntry> trace_end() {
  mode_set(kTrace, false);
  Trace& state = trace();
  const std::lock_guard lock(state.mutex);
  std::sort(state.entries.begin(), state.entries.end(), [](const TraceEntry& a, const TraceEntry& b) { return a.order < b.order; });
  return std::move(state.entries);
}

void hold_observers() {
  capture().mutex.lock();
  trace().mutex.lock();
}
void release_observers() {
  trace().mutex.unlock();
  capture().mutex.unlock();
}

uint64_t trace_order() {
  static std::atomic<uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

void record_trace(TraceEntry entry) {
  Trace& state = trace();
  const std::lock_guard lock(state.mutex);
  if (state.entries.size() < kMaxTrace) state.entries.push_back(std::move(entry));
}

}  // namespace kft
