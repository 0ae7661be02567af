// Hook<Op>: the one template that makes every hook. Op is an entry of at::_ops; its `schema` gives the signature.
//
// Path of a call: mode word is zero -> redispatch. Otherwise: thread off, capture or trace, no plan for the overload, disabled -> redispatch.
// Otherwise the arguments become guard words (call.h) and serve.h runs the plan or says why not; then redispatch.
// Redispatch goes to the keys below BackendSelect, so other libraries' kernels and torch's own are found as without us.
#ifndef KFT_HOOK_H_
#define KFT_HOOK_H_

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/version.h>

#include <tuple>

#include "kf_runtime.h"
#include "observe.h"
#include "visit.h"

namespace kft {

inline constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);

// How an operator's result is made of its output tensors. `count` is 0 for results that are not tensors alone: these are never served.
template <class R>
struct Result {
  static constexpr uint32_t count = 0;
};
template <>
struct Result<at::Tensor> {
  static constexpr uint32_t count = 1;
  static constexpr bool fresh = true;
  static at::Tensor make(at::Tensor* made, at::Tensor* const*) { return std::move(made[0]); }
};
template <>
struct Result<at::Tensor&> {
  static constexpr uint32_t count = 1;
  static constexpr bool fresh = false;
  static at::Tensor& make(at::Tensor*, at::Tensor* const* written) { return *written[0]; }
};
template <class... T>
  requires(std::is_same_v<T, at::Tensor> && ...)
struct Result<std::tuple<T...>> {
  static constexpr uint32_t count = sizeof...(T);
  static constexpr bool fresh = true;
  static std::tuple<T...> make(at::Tensor* made, at::Tensor* const*) {
    return [&]<size_t... I>(std::index_sequence<I...>) { return std::tuple<T...>(std::move(made[I])...); }(std::index_sequence_for<T...>{});
  }
};
template <class... T>
  requires(std::is_same_v<T, at::Tensor&> && ...)
struct Result<std::tuple<T...>> {
  static constexpr uint32_t count = sizeof...(T);
  static constexpr bool fresh = false;
  static std::tuple<T...> make(at::Tensor*, at::Tensor* const* written) {
    return [&]<size_t... I>(std::index_sequence<I...>) { return std::tuple<T...>(*written[I]...); }(std::index_sequence_for<T...>{});
  }
};

template <class F>
void each_tensor(const at::Tensor& result, F&& f) {
  f(result);
}
template <class... T, class F>
void each_tensor(const std::tuple<T...>& result, F&& f) {
  std::apply(
      [&](const auto&... item) {
        (
            [&] {
              if constexpr (std::is_same_v<std::remove_cvref_t<decltype(item)>, at::Tensor>) f(item);
            }(),
            ...);
      },
      result);
}

template <class Op>
inline OpEntry op_entry;

template <class Op, uint32_t kMarks, class Schema = typename Op::schema>
struct Hook;

template <class Op, uint32_t kMarks, class R, class... A>
struct Hook<Op, kMarks, R(A...)> {
  static R call(c10::DispatchKeySet keys, A... args) {
    const c10::DispatchKeySet below = keys & kBelow;
    const uint32_t mode = g_mode.load(std::memory_order_relaxed);
    if (C10_LIKELY(mode == 0)) return Op::redispatch(below, std::forward<A>(args)...);
    return active(below, mode, args...);
  }

 private:
  static constexpr uint32_t kOutputs = Result<R>::count;
  static constexpr uint32_t kWritten =
      ((std::is_same_v<A, at::Tensor&> ? 1u : 0u) + ... + 0u);  // arguments that the schema marks as written

  C10_NOINLINE static R active(c10::DispatchKeySet below, uint32_t mode, std::remove_reference_t<A>&... args) {
    OpEntry& entry = op_entry<Op>;
    if (g_thread.off != 0) return redispatch(below, args...);
    if constexpr ((kMarks & kChannelsLast) != 0) {
      if (!channels_last(target_of(below), std::get<0>(std::tie(args...)))) return redispatch(below, args...);
    }
    if (C10_UNLIKELY((mode & (kCapture | kTrace)) != 0)) return observed(entry, below, mode, args...);
    if ((entry.planned.load(std::memory_order_relaxed) & planned_for(target_of(below))) == 0) return redispatch(below, args...);
    if constexpr (kOutputs != 0) {
      at::Tensor made[kOutputs];
      at::Tensor* written[kWritten + 1];
      const Served served = try_serve(entry, below, mode, made, written, args...);
      if (C10_LIKELY(served.plan != nullptr)) return Result<R>::make(made, written + (kWritten - kOwn));
      entry.count(served.reason);
    }
    return redispatch(below, args...);
  }

  // The written arguments that are the outputs: the last ones (native batch norm names its running statistics as written, too).
  static constexpr uint32_t kOwn = [] {
    if constexpr (kOutputs == 0)
      return 0u;
    else
      return Result<R>::fresh ? 0u : kOutputs;
  }();
  static_assert(kOwn <= kWritten && kOutputs <= kMaxOutputs && kMaxOutputs <= Call::kMaxTargets);

  static Served try_serve(OpEntry& entry, c10::DispatchKeySet below, uint32_t mode, at::Tensor* made, at::Tensor** written,
                          std::remove_reference_t<A>&... args) {
    if ((mode & kDisabled) != 0) return {Reason::kDisabled};
    if ((mode & kPlans) == 0 || (entry.planned.load(std::memory_order_relaxed) & planned_for(target_of(below))) == 0)
      return {Reason::kNoPlan};
    if (!allowed(args...)) return {Reason::kRule};
    Call call(target_of(below));
    (visit(call, args), ...);
    collect(written, args...);
    if constexpr (kOwn == 0) {
      return serve(entry, call, made, nullptr, kOutputs);
    } else {
      return serve(entry, call, nullptr, written + (kWritten - kOwn), kOutputs);
    }
  }

  static void collect(at::Tensor** written, std::remove_reference_t<A>&... args) {
    uint32_t n = 0;
    (
        [&] {
          if constexpr (std::is_same_v<A, at::Tensor&>) written[n++] = &args;
        }(),
        ...);
  }

  // The rules of ops.def that look at a value: training=False, dropout_p == 0, non_blocking from the host.
  static bool allowed(const std::remove_reference_t<A>&... args) {
    bool ok = true, seen = false;
    [[maybe_unused]] bool later = false, host = false, other = false;
    (
        [&] {
          using T = std::remove_cvref_t<A>;
          if constexpr ((kMarks & kEvalOnly) != 0 && std::is_same_v<T, bool>) ok = ok && !args;
          if constexpr ((kMarks & kNoDropout) != 0 && std::is_same_v<T, double>) {
            if (!seen) ok = ok && args == 0.0;
            seen = true;
          }
          if constexpr ((kMarks & kReadsLater) != 0 && std::is_same_v<T, bool>) later = args;
          if constexpr ((kMarks & kReadsLater) != 0 && std::is_same_v<T, at::Tensor>) {
            if (args.defined()) (args.is_cpu() ? host : other) = true;
          }
        }(),
        ...);
    return ok && !(later && host && other);
  }

  static R redispatch(c10::DispatchKeySet below, std::remove_reference_t<A>&... args) {
    return Op::redispatch(below, static_cast<A&&>(args)...);
  }

  // Capture and trace. A call that no plan could ever serve is not recorded and opens no scope, so its parts can be.
  C10_NOINLINE static R observed(OpEntry& entry, c10::DispatchKeySet below, uint32_t mode, std::remove_reference_t<A>&... args) {
    const uint64_t order = trace_order();
    Call call(target_of(below));
    at::Tensor* written[kWritten + 1];
    (visit(call, args), ...);
    collect(written, args...);
    if constexpr (kOwn != 0) call.targets(written + (kWritten - kOwn), kOwn);
    call.finish();
    if (!allowed(args...)) call.refuse(Reason::kRule);

    Served served{Reason::kNoPlan};
    if constexpr (kOutputs != 0) {
      if ((mode & kCapture) == 0 && (mode & kTrace) != 0) {
        at::Tensor made[kOutputs];
        served = try_serve(entry, below, mode, made, written, args...);
        if (served.plan == nullptr && served.reason != Reason::kNoPlan) entry.count(served.reason);
        if (served.plan != nullptr) {
          const Scope scope(entry);
          R result = Result<R>::make(made, written + (kWritten - kOwn));
          traced(entry, call, served, scope.depth(), order, describe(call, false, args...), result, written);
          return static_cast<R>(std::forward<R>(result));
        }
      }
    }
    if ((mode & kCapture) != 0 && call.reason() != Reason::kServed) return redispatch(below, args...);

    Scope scope(entry);
    const bool capture = (mode & kCapture) != 0 && scope.outermost();
    if (!capture && (mode & kTrace) == 0) return redispatch(below, args...);
    std::vector<Argument> arguments = describe(call, false, args...);
    if (!capture) {
      R result = redispatch(below, args...);
      traced(entry, call, served, scope.depth(), order, std::move(arguments), result, written);
      return static_cast<R>(std::forward<R>(result));
    }
    const Ticket ticket = open_record(entry, call);
    std::vector<Argument> copies;
    if (ticket.payload) {
      const CallRange range(kPayloadRange);
      copies = describe(call, true, args...);
    }
    const int64_t before = kfr_now_ns();
    R result = [&]() -> R {
      const CallRange range(ticket.record);
      return redispatch(below, args...);
    }();
    const int64_t ns = kfr_now_ns() - before;
    record_call(entry, call, ticket, std::move(arguments), std::move(copies), outputs_of(call, result, written), scope.take_children(), ns);
    return static_cast<R>(std::forward<R>(result));
  }

  static std::vector<Argument> describe(const Call& call, bool payload, const std::remove_reference_t<A>&... args) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const ThreadOff off;
    Describe sink(call.target(), payload);
    (visit(sink, args), ...);
    return std::move(sink.arguments);
  }

  // The outputs of a form that writes are the arguments that it writes, whatever eager returned: cudnn_batch_norm.out of torch 2.11 returns a reference
  // to a tensor that is gone.
  template <class T>
  static std::vector<Output> outputs_of(const Call& call, const T& result, at::Tensor* const* written) {
    std::vector<Output> outputs;
    if constexpr (kOwn != 0) {
      for (uint32_t o = 0; o < kOwn; ++o) outputs.push_back(output_of(*written[kWritten - kOwn + o], call.alias(o)));
    } else {
      each_tensor(result, [&](const at::Tensor& t) {
        if (t.defined()) outputs.push_back(output_of(t, -1));
      });
    }
    return outputs;
  }

  template <class T>
  static void traced(OpEntry& entry, const Call& call, const Served& served, uint32_t depth, uint64_t order,
                     std::vector<Argument> arguments, const T& result, at::Tensor* const* written) {
    TraceEntry made{&entry, std::move(arguments), {}, served.plan, served.reason, depth, order};
    if (call.reason() == Reason::kServed) made.outputs = outputs_of(call, result, written);
    record_trace(std::move(made));
  }
};

template <class Op, uint32_t kMarks>
void add(std::vector<OpEntry*>& list, Form form) {
  OpEntry& entry = op_entry<Op>;
  entry.name = Op::name;
  entry.overload = Op::overload_name;
  entry.schema_text = Op::schema_str;
  entry.form = form;
  entry.marks = kMarks;
  entry.servable = Result<typename c10::guts::function_traits<typename Op::schema>::return_type>::count != 0;
  entry.hook = [](torch::Library& library, const char* name) {
    library.impl(name, torch::dispatch(c10::DispatchKey::BackendSelect, TORCH_FN((Hook<Op, kMarks>::call))));
  };
  list.push_back(&entry);
}

}  // namespace kft
#endif  // KFT_HOOK_H_
