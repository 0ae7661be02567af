#include "plans.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "device.h"
#include "registry.h"

namespace kft {

namespace {

using Tables = std::map<int32_t, std::vector<kfr_plan*>>;  // device -> what its table holds

struct Published {
  std::mutex mutex;
  std::vector<std::shared_ptr<Plan>> plans;
  Tables tables;  // as published now
};
Published& published() {
  static auto* made = new Published;  // leaked: hooks may still serve while the process exits
  return *made;
}

}  // namespace

void check(kfr_status status, const kfr_error& error) {
  if (status != KFR_OK) throw RuntimeFault(error);
}

Plan::~Plan() {
  if (!handed_over_ && pack_ == nullptr) kfr_plan_free(plan_);
}

kfr_plan_info Plan::info() const {
  kfr_plan_info info;
  if (kfr_plan_info_get(plan_, &info) != KFR_OK) throw RuntimeFault(KFR_BAD_ARGUMENT, "read a plan: the runtime does not know it");
  return info;
}

std::string Plan::overload() const {
  const int32_t id = info().op;
  for (const OpEntry* entry : entries()) {
    if (entry->id == id) return entry->full_name;
  }
  return "";
}

std::shared_ptr<Plan> plan_open(const std::string& json, const void* image, size_t image_n, int32_t device) {
  kfr_plan* plan = nullptr;
  kfr_error error{};
  check(kfr_plan_create(json.data(), json.size(), image, image_n, device, &plan, &error), error);
  return std::make_shared<Plan>(plan, nullptr);
}

std::vector<std::shared_ptr<Plan>> pack_open(const std::string& folder, const std::string* pins, int32_t device) {
  kfr_pack* opened = nullptr;
  kfr_error error{};
  check(
      kfr_pack_open(folder.c_str(), pins != nullptr ? pins->data() : nullptr, pins != nullptr ? pins->size() : 0, device, &opened, &error),
      error);
  const std::shared_ptr<kfr_pack> pack(opened, kfr_pack_free);
  size_t count = 0;
  kfr_plan* const* made = kfr_pack_plans(opened, &count);
  std::vector<std::shared_ptr<Plan>> plans;
  for (size_t i = 0; i < count; ++i) plans.push_back(std::make_shared<Plan>(made[i], pack));
  return plans;
}

namespace {

// The plans by device, each known to be one that a hook can serve.
Tables by_device(const std::vector<std::shared_ptr<Plan>>& plans) {
  Tables tables;
  for (const auto& plan : plans) {
    if (plan == nullptr) throw RuntimeFault(KFR_BAD_ARGUMENT, "publish plans: one is None (expected plans of plan_open or pack_open)");
    const kfr_plan_info info = plan->info();
    const auto& all = entries();
    const auto entry = std::find_if(all.begin(), all.end(), [&](const OpEntry* e) { return e->id == info.op; });
    if (entry == all.end() || !(*entry)->servable) {
      throw RuntimeFault(KFR_BAD_ARGUMENT, std::string("publish plan `") + info.id + "`: its overload is not one that hooks can serve");
    }
    if (info.device != KFR_HOST) need_cuda((std::string("publish plan `") + info.id + "`").c_str());
    tables[info.device].push_back(plan->get());
  }
  return tables;
}

// What hooks look at before they look at a call: which kinds of device have a plan for the overload.
void mark_planned(const Tables& tables) {
  for (OpEntry* entry : entries()) {
    uint32_t planned = 0;
    for (const auto& [device, plans] : tables) {
      if (kfr_has_plans(entry->id, device) != 0) planned |= device == KFR_HOST ? kPlannedHost : kPlannedCuda;
    }
    entry->planned.store(planned, std::memory_order_relaxed);
  }
}

// Swaps one table after the other; a device that is refused leaves all of them as they were.
void swap_tables(const Tables& before, const Tables& after) {
  static const std::vector<kfr_plan*> none;
  std::set<int32_t> devices;
  for (const auto* tables : {&before, &after}) {
    for (const auto& [device, plans] : *tables) devices.insert(device);
  }
  const auto of = [&](const Tables& tables, int32_t device) -> const std::vector<kfr_plan*>& {
    const auto found = tables.find(device);
    return found == tables.end() ? none : found->second;
  };
  std::vector<int32_t> done;
  for (const int32_t device : devices) {
    kfr_error error{};
    const auto& next = of(after, device);
    if (kfr_publish(next.data(), next.size(), device, &error) == KFR_OK) {
      done.push_back(device);
      continue;
    }
    for (const int32_t undo : done) {
      const auto& old = of(before, undo);
      kfr_error second{};
      // What was published a moment ago is loaded and warm. If even that fails the device is lost, and serving nothing there is right.
      if (kfr_publish(old.data(), old.size(), undo, &second) != KFR_OK) kfr_publish(nullptr, 0, undo, &second);
    }
    throw RuntimeFault(error);
  }
}

}  // namespace

void publish(const std::vector<std::shared_ptr<Plan>>& plans) {
  const Tables next = by_device(plans);
  Published& state = published();
  const std::lock_guard lock(state.mutex);
  try {
    swap_tables(state.tables, next);
  } catch (...) {
    mark_planned(state.tables);
    throw;
  }
  state.tables = next;
  for (const auto& plan : state.plans) plan->published_.store(false, std::memory_order_relaxed);
  for (const auto& plan : plans) {
    plan->published_.store(true, std::memory_order_relaxed);
    if (!plan->handed_over_) state.plans.push_back(plan);
    plan->handed_over_ = true;
  }
  mark_planned(next);
  mode_set(kPlans, !plans.empty());
}

void hold_plans() { published().mutex.lock(); }
void release_plans() { published().mutex.unlock(); }

std::vector<std::shared_ptr<Plan>> published_plans() {
  Published& state = published();
  const std::lock_guard lock(state.mutex);
  return state.plans;
}

}  // namespace kft
