// lookup_bench.cc: what a lookup among 64 plans costs, hit and miss, words written as a hook writes them. Prints; judges nothing.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "kf_call.h"
#include "support.h"

namespace {

// The fastest and the middle of many short samples: a busy machine disturbs the middle first.
template <class F>
void print(const char* what, F&& body) {
  constexpr int kInner = 20000;
  std::vector<double> samples;
  for (int s = 0; s < 101; ++s) {
    int64_t start = kfr_now_ns();
    for (int i = 0; i < kInner; ++i) body(i);
    samples.push_back(static_cast<double>(kfr_now_ns() - start) / kInner);
  }
  std::sort(samples.begin(), samples.end());
  std::printf("%-32s %6.1f ns (median %.1f)\n", what, samples.front(), samples[samples.size() / 2]);
}

}  // namespace

int main() {
  using namespace kf::testing;
  std::vector<kfr_plan*> plans;
  for (int64_t i = 1; i <= 64; ++i) plans.push_back(make(plan_json("p-" + std::to_string(i), {4, i, 56, 56}), scale_image()).release());
  if (kfr_publish(plans.data(), plans.size(), KFR_HOST, nullptr) != KFR_OK) return 1;
  int32_t op = kfr_op_id("aten::relu");

  volatile uintptr_t sink = 0;
  int64_t sizes[] = {4, 1, 56, 56}, strides[] = {3136, 3136, 56, 1};
  auto call = [&](int64_t channels) {
    sizes[1] = channels;
    strides[0] = 3136 * channels;
    kf::CallWords words;
    words.tensor(KFR_F32, 4, sizes, strides);
    sink = reinterpret_cast<uintptr_t>(kfr_lookup(op, KFR_HOST, words.data(), words.count()));
  };
  auto write = [&](int64_t channels) {
    sizes[1] = channels;
    kf::CallWords words;
    words.tensor(KFR_F32, 4, sizes, strides);
    const int64_t* data = words.data();
    asm volatile("" : : "r"(data) : "memory");  // the words must be in memory, as for a lookup
  };
  print("words + lookup, hit among 64", [&](int i) { call(1 + (i & 63)); });
  print("words + lookup, miss among 64", [&](int i) { call(100 + (i & 63)); });
  print("words only", [&](int i) { write(1 + (i & 63)); });
  print("kfr_has_plans", [&](int i) { sink = static_cast<uintptr_t>(kfr_has_plans(op + (i & 1), KFR_HOST)); });
  return 0;
}
