// table_test.cc: lookup by guard, whole-table swaps under concurrent readers, ownership, one publisher.
#include "table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "error.h"
#include "kf_call.h"
#include "plan.h"
#include "support.h"

namespace kf {
namespace {

using namespace testing;

// The table is the process's; every test leaves it empty.
class Table : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(kfr_publish(nullptr, 0, KFR_HOST, nullptr), KFR_OK); }

  // Plans that are to be published live as long as the process, as the runtime says; this list keeps them reachable.
  static kfr_plan* keep(PlanPtr plan) {
    static auto* kept = new std::vector<kfr_plan*>;
    kept->push_back(plan.release());
    return kept->back();
  }
  static const kfr_plan* find(const char* overload, const std::vector<int64_t>& sizes) {
    std::vector<int64_t> words = tensor_words(sizes);
    return kfr_lookup(kfr_op_id(overload), KFR_HOST, words.data(), static_cast<uint32_t>(words.size()));
  }
};

TEST_F(Table, FindsExactlyTheGuardThatArrives) {
  kfr_plan* plans[] = {keep(make(plan_json("p-1", {3, 4}), scale_image())), keep(make(plan_json("p-2", {4, 3}), scale_image())),
                       keep(make(plan_json("p-3", {3, 4}, "aten::relu_x"), scale_image()))};
  EXPECT_EQ(kfr_has_plans(kfr_op_id("aten::relu"), KFR_HOST), 0);
  EXPECT_EQ(find("aten::relu", {3, 4}), nullptr);
  ASSERT_EQ(kfr_publish(plans, 3, KFR_HOST, nullptr), KFR_OK);
  EXPECT_EQ(find("aten::relu", {3, 4}), plans[0]);
  EXPECT_EQ(find("aten::relu", {4, 3}), plans[1]);
  EXPECT_EQ(find("aten::relu_x", {3, 4}), plans[2]);
  EXPECT_EQ(find("aten::relu", {3, 5}), nullptr);
  EXPECT_EQ(find("aten::relu", {3}), nullptr);
  EXPECT_EQ(find("aten::gelu", {3, 4}), nullptr);
  EXPECT_EQ(kfr_has_plans(kfr_op_id("aten::relu"), KFR_HOST), 1);
  EXPECT_EQ(kfr_has_plans(kfr_op_id("aten::gelu"), KFR_HOST), 0);
  EXPECT_EQ(kfr_has_plans(kfr_op_id("aten::relu"), 0), 0);
  for (int32_t op : {-1, KFR_MAX_OPS, 1 << 30}) EXPECT_EQ(kfr_has_plans(op, KFR_HOST), 0);
  for (int32_t device : {-2, 64, 1 << 30}) EXPECT_EQ(kfr_has_plans(0, device), 0);
  ASSERT_EQ(kfr_publish(nullptr, 0, KFR_HOST, nullptr), KFR_OK);
  EXPECT_EQ(find("aten::relu", {3, 4}), nullptr);
  EXPECT_EQ(kfr_has_plans(kfr_op_id("aten::relu"), KFR_HOST), 0);
}

TEST_F(Table, StridesAndElementTypesAreInTheGuard) {
  kfr_plan* plan = keep(make(plan_json("p-1", {3, 4}), scale_image()));
  ASSERT_EQ(kfr_publish(&plan, 1, KFR_HOST, nullptr), KFR_OK);
  int32_t op = kfr_op_id("aten::relu");
  const int64_t sizes[] = {3, 4}, strides[] = {4, 1}, transposed[] = {1, 3};
  auto lookup_words = [&](int32_t dtype, const int64_t* s) {
    CallWords w;
    w.tensor(dtype, 2, sizes, s);
    return kfr_lookup(op, KFR_HOST, w.data(), w.count());
  };
  EXPECT_EQ(lookup_words(KFR_F32, strides), plan);
  EXPECT_EQ(lookup_words(KFR_F32, transposed), nullptr);
  EXPECT_EQ(lookup_words(KFR_I32, strides), nullptr);
}

TEST_F(Table, SixtyFourPlansOfOneOverloadAreAllFound) {
  std::vector<kfr_plan*> plans;
  for (int64_t i = 1; i <= 64; ++i) plans.push_back(keep(make(plan_json("p-" + std::to_string(i), {i, 7}), scale_image())));
  ASSERT_EQ(kfr_publish(plans.data(), plans.size(), KFR_HOST, nullptr), KFR_OK);
  for (int64_t i = 1; i <= 64; ++i) EXPECT_EQ(find("aten::relu", {i, 7}), plans[static_cast<size_t>(i - 1)]);
  EXPECT_EQ(find("aten::relu", {65, 7}), nullptr);
}

TEST_F(Table, TwoPlansWithOneGuardAreRefusedAndTheOldTableStays) {
  kfr_plan* old = keep(make(plan_json("p-old", {9}), scale_image()));
  ASSERT_EQ(kfr_publish(&old, 1, KFR_HOST, nullptr), KFR_OK);
  PlanPtr a = make(plan_json("p-a", {5}), scale_image()), b = make(plan_json("p-b", {5}), scale_image());
  kfr_plan* twins[] = {a.get(), b.get()};
  kfr_error error{};
  EXPECT_EQ(kfr_publish(twins, 2, KFR_HOST, &error), KFR_BAD_ARGUMENT);
  EXPECT_STREQ(error.text, "publish `p-b`: plan `p-a` has the same guard on `aten::relu`");
  EXPECT_EQ(find("aten::relu", {9}), old);
  EXPECT_EQ(find("aten::relu", {5}), nullptr);
  EXPECT_FALSE(a->published);
  kfr_plan* none[] = {nullptr};
  EXPECT_EQ(kfr_publish(none, 1, KFR_HOST, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_publish(nullptr, 1, KFR_HOST, &error), KFR_BAD_ARGUMENT);
  EXPECT_EQ(kfr_publish(twins, 1, 0, &error), KFR_BAD_ARGUMENT);
  EXPECT_STREQ(error.text, "publish `p-a`: it was made for device -1 (expected 0)");
  EXPECT_EQ(kfr_publish(twins, 1, 64, &error), KFR_NO_DEVICE);
}

TEST_F(Table, APublishedPlanIsNeverFreed) {
  kfr_plan* plan = keep(make(plan_json("p-1", {6}), scale_image()));
  ASSERT_EQ(kfr_publish(&plan, 1, KFR_HOST, nullptr), KFR_OK);
  kfr_plan_free(plan);
  ASSERT_EQ(kfr_publish(nullptr, 0, KFR_HOST, nullptr), KFR_OK);
  kfr_plan_free(plan);
  std::vector<float> x(6, 1), y(6);
  void* slots[] = {x.data(), y.data()};
  Pool pool;
  EXPECT_EQ(kfr_launch(plan, slots, 2, &pool.parallel, nullptr, nullptr), KFR_OK);
  EXPECT_EQ(y[5], 3);
  ASSERT_EQ(kfr_publish(&plan, 1, KFR_HOST, nullptr), KFR_OK);  // and may be published again
  EXPECT_EQ(find("aten::relu", {6}), plan);
}

TEST_F(Table, HitsAreCountedAndReset) {
  PlanPtr plan = make(plan_json("p-1", {6}), scale_image());
  EXPECT_EQ(kfr_plan_hits(plan.get(), 0), 0u);
  kfr_plan_hit(plan.get());
  kfr_plan_hit(plan.get());
  kfr_plan_fallback(plan.get(), 3);
  kfr_plan_fallback(plan.get(), KFR_MAX_REASONS);
  EXPECT_EQ(kfr_plan_fallbacks(plan.get(), 3, 1), 1u);
  EXPECT_EQ(kfr_plan_fallbacks(plan.get(), 3, 0), 0u);
  EXPECT_EQ(kfr_plan_fallbacks(plan.get(), KFR_MAX_REASONS, 0), 0u);
  EXPECT_EQ(kfr_plan_hits(plan.get(), 1), 2u);
  EXPECT_EQ(kfr_plan_hits(plan.get(), 0), 0u);
}

// A program whose warm-up calls back, to stand inside a publish. It also shows that warm-up comes before the swap.
class Callback final : public Program {
 public:
  explicit Callback(std::function<void()> inside) : inside_(std::move(inside)) {}
  void launch(void* const*, const kfr_parallel*, void*) const override {}
  void warm(const std::vector<uint64_t>&) const override { inside_(); }
  void time(const Series&, const kfr_parallel*, void*, double*) const override {}

 private:
  std::function<void()> inside_;
};

kfr_plan* callback_plan(std::function<void()> inside) {
  auto* plan = new kfr_plan;
  plan->id = "p-callback";
  plan->overload = "aten::callback";
  plan->op = kfr_op_id("aten::callback");
  plan->words = tensor_words({1});
  plan->hash = CallWords::hash(plan->words.data(), static_cast<uint32_t>(plan->words.size()));
  plan->program = std::make_unique<Callback>(std::move(inside));
  return plan;
}

TEST_F(Table, ASecondPublisherIsBusyAndReadersSeeNothingHalfDone) {
  kfr_status second = KFR_OK;
  kfr_error error{};
  const kfr_plan* seen = nullptr;
  PlanPtr plan(callback_plan([&] {
    std::thread([&] {
      second = kfr_publish(nullptr, 0, KFR_HOST, &error);
      seen = find("aten::callback", {1});
    }).join();
  }));
  kfr_plan* one = keep(std::move(plan));
  ASSERT_EQ(kfr_publish(&one, 1, KFR_HOST, nullptr), KFR_OK);
  EXPECT_EQ(second, KFR_BUSY);
  EXPECT_NE(std::string(error.text).find("another publisher"), std::string::npos);
  EXPECT_EQ(seen, nullptr);
  EXPECT_EQ(find("aten::callback", {1}), one);
}

TEST_F(Table, AFailedWarmUpPublishesNothing) {
  PlanPtr plan(callback_plan([] { throw Error(KFR_DRIVER, "no"); }));
  kfr_plan* one = plan.get();
  EXPECT_EQ(kfr_publish(&one, 1, KFR_HOST, nullptr), KFR_DRIVER);
  EXPECT_FALSE(plan->published);
  EXPECT_EQ(find("aten::callback", {1}), nullptr);
}

TEST_F(Table, ReadersNeverMissAPlanThatIsInEveryTable) {
  std::vector<kfr_plan*> odd, even;
  kfr_plan* always = keep(make(plan_json("p-always", {100}), scale_image()));
  for (int64_t i = 1; i <= 16; ++i) (i % 2 ? odd : even).push_back(keep(make(plan_json("p-" + std::to_string(i), {i}), scale_image())));
  odd.push_back(always);
  even.insert(even.begin(), always);
  ASSERT_EQ(kfr_publish(odd.data(), odd.size(), KFR_HOST, nullptr), KFR_OK);

  std::atomic<bool> stop{false};
  std::atomic<int> missed{0}, wrong{0};
  std::atomic<int64_t> looked{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        missed += find("aten::relu", {100}) != always;
        const kfr_plan* three = find("aten::relu", {3});
        wrong += three != nullptr && three != odd[1];
        if (three != nullptr) kfr_plan_hit(three);
        looked.fetch_add(1);
      }
    });
  }
  for (int i = 0; i < 500 || looked < 1000; ++i) {
    auto& next = i % 2 ? odd : even;
    EXPECT_EQ(kfr_publish(next.data(), next.size(), KFR_HOST, nullptr), KFR_OK);
  }
  stop = true;
  for (auto& t : readers) t.join();
  EXPECT_EQ(missed, 0);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace kf
