#include "plans.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "registry.h"

namespace kft {

namespace {

struct Published {
  std::mutex mutex;
  std::vector<std::shared_ptr<Plan>> plans;
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

void publish(const std::vector<std::shared_ptr<Plan>>& plans) {
  std::vector<kfr_plan*> handles;
  std::unordered_set<int32_t> ops;
  for (const auto& plan : plans) {
    if (plan == nullptr) throw RuntimeFault(KFR_BAD_ARGUMENT, "publish plans: one is None (expected plans of plan_open or pack_open)");
    const kfr_plan_info info = plan->info();
    if (info.device != KFR_HOST)
      throw RuntimeFault(KFR_NO_DEVICE,
                         std::string("publish plan `") + info.id + "`: its device is not the host (this build serves the host only)");
    const auto& all = entries();
    const auto entry = std::find_if(all.begin(), all.end(), [&](const OpEntry* e) { return e->id == info.op; });
    if (entry == all.end() || !(*entry)->servable) {
      throw RuntimeFault(KFR_BAD_ARGUMENT, std::string("publish plan `") + info.id + "`: its overload is not one that hooks can serve");
    }
    ops.insert(info.op);
    handles.push_back(plan->get());
  }
  Published& state = published();
  const std::lock_guard lock(state.mutex);
  for (OpEntry* entry : entries()) {
    if (ops.count(entry->id) != 0) entry->planned.store(1, std::memory_order_relaxed);
  }
  kfr_error error{};
  const kfr_status status = kfr_publish(handles.data(), handles.size(), KFR_HOST, &error);
  if (status == KFR_OK) {
    for (const auto& plan : state.plans) plan->published_ = false;
    for (const auto& plan : plans) {
      plan->published_ = true;
      if (!plan->handed_over_) state.plans.push_back(plan);
      plan->handed_over_ = true;
    }
  }
  for (OpEntry* entry : entries()) entry->planned.store(kfr_has_plans(entry->id, KFR_HOST) != 0 ? 1 : 0, std::memory_order_relaxed);
  if (status == KFR_OK) mode_set(kPlans, !handles.empty());
  check(status, error);
}

std::vector<std::shared_ptr<Plan>> published_plans() {
  Published& state = published();
  const std::lock_guard lock(state.mutex);
  return state.plans;
}

}  // namespace kft
