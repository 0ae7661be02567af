// Plans as the extension holds them, and what is published. Not on the serving path.
#ifndef KFT_PLANS_H_
#define KFT_PLANS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kf_runtime.h"

namespace kft {

// An error of the runtime with its code; what() is the text, then the hint.
class RuntimeFault : public std::runtime_error {
 public:
  explicit RuntimeFault(const kfr_error& error)
      : std::runtime_error(std::string(error.text) + (*error.hint != '\0' ? std::string("\nhint: ") + error.hint : "")), code(error.code) {}
  RuntimeFault(int32_t code, const std::string& text) : std::runtime_error(text), code(code) {}
  int32_t code;
};

// Throws RuntimeFault unless the status is KFR_OK.
void check(kfr_status status, const kfr_error& error);

// Owns a plan until it is published; from then on the runtime does, for the life of the process.
class Plan {
 public:
  Plan(kfr_plan* plan, std::shared_ptr<kfr_pack> pack) : plan_(plan), pack_(std::move(pack)) {}
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  kfr_plan* get() const { return plan_; }
  kfr_plan_info info() const;
  std::string overload() const;
  uint64_t hits(bool reset) const { return kfr_plan_hits(plan_, reset ? 1 : 0); }
  // Calls that the guard matched and eager ran, by the number of a Reason.
  uint64_t fallbacks(uint32_t reason, bool reset) const { return kfr_plan_fallbacks(plan_, reason, reset ? 1 : 0); }
  bool published() const { return published_.load(std::memory_order_relaxed); }  // now

 private:
  friend void publish(const std::vector<std::shared_ptr<Plan>>& plans);
  kfr_plan* plan_;
  std::shared_ptr<kfr_pack> pack_;      // keeps a pack's plans alive
  std::atomic<bool> published_{false};  // read by threads that hold no lock
  bool handed_over_ = false;            // published once: the runtime never frees it
};

std::shared_ptr<Plan> plan_open(const std::string& json, const void* image, size_t image_n, int32_t device);
std::vector<std::shared_ptr<Plan>> pack_open(const std::string& folder, const std::string* pins, int32_t device);

// Replaces what is served, in one step on each device: the host's and every CUDA device's plans. An empty list serves nothing anywhere. If a device
// refuses, everything stays as it was.
void publish(const std::vector<std::shared_ptr<Plan>>& plans);
// Every plan that was published in this process, in order; published() says which are served now.
std::vector<std::shared_ptr<Plan>> published_plans();
// Around a fork: no other thread publishes meanwhile.
void hold_plans();
void release_plans();

}  // namespace kft
#endif  // KFT_PLANS_H_
