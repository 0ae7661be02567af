// table.cc: open-addressing hash tables of guards, one an overload, all behind one atomic pointer a device.
//
//   tables[device + 1] --acquire--> DeviceTable --op--> OpTable --hash--> Entry {hash, plan} --words equal?--> plan
//
// Readers take no lock and write nothing. Tables are never freed, only replaced; one costs 4 KiB and 32 bytes a plan.
#include "table.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "error.h"
#include "kf_call.h"
#include "plan.h"
#include "target.h"

namespace kf {
namespace {

struct Entry {
  uint64_t hash = 0;
  const kfr_plan* plan = nullptr;
  const int64_t* words = nullptr;
  uint64_t count = 0;
};

// Word by word: a dozen words are compared sooner than memcmp is called, whose wide loads wait for the stores that just made them.
bool equal(const int64_t* a, const int64_t* b, uint32_t count) noexcept {
  for (uint32_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Power-of-two size, at most half full, linear probing: a probe ends at an empty entry.
struct OpTable {
  uint64_t mask = 0;
  std::vector<Entry> entries;

  const Entry* find(uint64_t hash, const int64_t* words, uint32_t count) const noexcept {
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
      const Entry& e = entries[i];
      if (e.plan == nullptr) return nullptr;
      if (e.hash == hash && e.count == count && equal(e.words, words, count)) return &e;
    }
  }
  void insert(const kfr_plan& plan) {
    uint64_t i = plan.hash & mask;
    while (entries[i].plan != nullptr) i = (i + 1) & mask;
    entries[i] = {plan.hash, &plan, plan.words.data(), plan.words.size()};
  }
};

struct DeviceTable {
  std::array<const OpTable*, KFR_MAX_OPS> ops{};
  std::vector<std::unique_ptr<OpTable>> owned;
};

std::array<std::atomic<const DeviceTable*>, kDevicesMax + 1> tables{};

struct Publisher {
  std::mutex mutex;
  std::vector<std::unique_ptr<const DeviceTable>> kept;  // every table that was ever visible
};
Publisher& publisher() {
  static Publisher& p = *new Publisher;  // never destroyed: readers outlive static destruction
  return p;
}

std::unique_ptr<DeviceTable> build(std::span<kfr_plan* const> plans) {
  std::array<size_t, KFR_MAX_OPS> counts{};
  for (const kfr_plan* plan : plans) ++counts[static_cast<size_t>(plan->op)];
  std::array<OpTable*, KFR_MAX_OPS> open{};
  auto table = std::make_unique<DeviceTable>();
  for (size_t op = 0; op < counts.size(); ++op) {
    if (counts[op] == 0) continue;
    auto ops = std::make_unique<OpTable>();
    size_t size = 2;
    while (size < 2 * counts[op]) size *= 2;
    ops->mask = size - 1;
    ops->entries.resize(size);
    table->ops[op] = open[op] = ops.get();
    table->owned.push_back(std::move(ops));
  }
  for (const kfr_plan* plan : plans) {
    OpTable* ops = open[static_cast<size_t>(plan->op)];
    if (const Entry* twin = ops->find(plan->hash, plan->words.data(), static_cast<uint32_t>(plan->words.size()))) {
      throw Error(KFR_BAD_ARGUMENT,
                  "publish " + ticked(plan->id) + ": plan " + ticked(twin->plan->id) + " has the same guard on " + ticked(plan->overload));
    }
    ops->insert(*plan);
  }
  return table;
}

// An output that is an input has no memory of its own.
std::vector<uint64_t> slot_bytes(const kfr_plan& plan) {
  std::vector<uint64_t> bytes;
  for (const Tensor& t : plan.inputs) bytes.push_back(t.span_bytes);
  for (const Tensor& t : plan.outputs) bytes.push_back(t.alias < 0 ? t.span_bytes : 0);
  bytes.insert(bytes.end(), plan.workspace_bytes.begin(), plan.workspace_bytes.end());
  return bytes;
}

const DeviceTable* current(int32_t device) noexcept {
  if (device < KFR_HOST || device >= kDevicesMax) return nullptr;
  return tables[static_cast<size_t>(device + 1)].load(std::memory_order_acquire);
}

const OpTable* current(int32_t op, int32_t device) noexcept {
  const DeviceTable* table = current(device);
  return table != nullptr && op >= 0 && op < KFR_MAX_OPS ? table->ops[static_cast<size_t>(op)] : nullptr;
}

}  // namespace

void publish(std::span<kfr_plan* const> plans, int32_t device) {
  if (device < KFR_HOST || device >= kDevicesMax)
    throw Error(KFR_NO_DEVICE, "publish on device " + std::to_string(device) + ": no such ordinal");
  std::unique_lock lock(publisher().mutex, std::try_to_lock);
  if (!lock)
    throw Error(KFR_BUSY, "publish on device " + std::to_string(device) + ": another publisher is at work", "try again when it is done");
  for (const kfr_plan* plan : plans) {
    if (plan == nullptr) throw Error(KFR_BAD_ARGUMENT, "publish: a plan is NULL");
    if (plan->device != device) {
      throw Error(KFR_BAD_ARGUMENT, "publish " + ticked(plan->id) + ": it was made for device " + std::to_string(plan->device) +
                                        " (expected " + std::to_string(device) + ")");
    }
  }
  std::unique_ptr<DeviceTable> table;
  if (!plans.empty()) table = build(plans);
  for (const kfr_plan* plan : plans) {
    if (plan->published.load(std::memory_order_relaxed)) continue;  // it has run already
    try {
      plan->program->warm(slot_bytes(*plan));
    } catch (const Error& e) { throw e.within("publish " + ticked(plan->id)); }
  }

  auto& visible = tables[static_cast<size_t>(device + 1)];
  const DeviceTable* next = table.get();
  if (table != nullptr) publisher().kept.push_back(std::move(table));
  for (const kfr_plan* plan : plans) plan->published.store(true, std::memory_order_relaxed);
  visible.store(next, std::memory_order_release);
}

const kfr_plan* lookup(int32_t op, int32_t device, const int64_t* words, uint32_t count) noexcept {
  const OpTable* table = current(op, device);
  if (table == nullptr) return nullptr;
  const Entry* entry = table->find(CallWords::hash(words, count), words, count);
  return entry == nullptr ? nullptr : entry->plan;
}

bool has_plans(int32_t op, int32_t device) noexcept { return current(op, device) != nullptr; }

}  // namespace kf
