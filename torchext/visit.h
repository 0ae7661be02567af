// visit(sink, argument): tells a sink what one typed argument of an operator is. The only place that knows torch's C++ argument types.
//
// Sinks: Call (call.h) writes guard words, Describe (describe.h) keeps a description and, when asked, a copy of the payload.
// A sink has: tensor, undefined, none, boolean, integer, real, dtype, string, ints, list_begin, list_end, scalar(bool | int64_t | double), refuse.
#ifndef KFT_VISIT_H_
#define KFT_VISIT_H_

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <array>
#include <optional>
#include <string_view>
#include <type_traits>

#include "registry.h"

namespace kft {

template <class T>
inline constexpr bool always_false = false;

template <class Sink>
void visit_scalar(Sink& sink, const at::Scalar& v) {
  if (v.isSymbolic()) {
    sink.refuse(Reason::kSymbolic);
  } else if (v.isBoolean()) {
    sink.scalar(v.to<bool>());
  } else if (v.isFloatingPoint()) {
    sink.scalar(v.to<double>());
  } else if (v.isIntegral(false) && v.type() == at::kLong) {
    sink.scalar(v.to<int64_t>());
  } else {
    sink.refuse(Reason::kDtype);  // complex, unsigned 64 bit
  }
}

template <class Sink, class T>
void visit(Sink& sink, const T& v) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    v.defined() ? sink.tensor(v) : sink.undefined();
  } else if constexpr (std::is_same_v<T, at::ITensorListRef> || std::is_same_v<T, at::TensorList>) {
    sink.list_begin(static_cast<int64_t>(v.size()));
    for (const at::Tensor& item : v) visit(sink, item);
    sink.list_end();
  } else if constexpr (std::is_same_v<T, bool>) {
    sink.boolean(v);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    sink.integer(v);
  } else if constexpr (std::is_same_v<T, double>) {
    sink.real(v);
  } else if constexpr (std::is_same_v<T, c10::SymInt>) {
    const auto known = v.maybe_as_int();
    known ? sink.integer(*known) : sink.refuse(Reason::kSymbolic);
  } else if constexpr (std::is_same_v<T, at::Scalar>) {
    visit_scalar(sink, v);
  } else if constexpr (std::is_same_v<T, at::ScalarType>) {
    sink.dtype(v);
  } else if constexpr (std::is_same_v<T, c10::string_view> || std::is_same_v<T, std::string_view>) {
    sink.string(std::string_view(v.data(), v.size()));
  } else if constexpr (std::is_same_v<T, at::IntArrayRef>) {
    sink.ints(v);
  } else if constexpr (std::is_same_v<T, c10::SymIntArrayRef>) {
    const auto known = c10::asIntArrayRefSlowOpt(v);
    known ? sink.ints(*known) : sink.refuse(Reason::kSymbolic);
  } else if constexpr (std::is_same_v<T, std::optional<at::Tensor>>) {
    // An optional that holds an undefined tensor is nullopt to every kernel in ops.def (they all take value_or(Tensor())), and which of the
    // two arrives depends on the composite above; so both are written as none.
    v.has_value() && v->defined() ? sink.tensor(*v) : sink.none();
  } else if constexpr (requires {
                         v.has_value();
                         *v;
                       }) {  // other optionals, OptionalArrayRef
    v.has_value() ? visit(sink, *v) : sink.none();
  } else {
    static_assert(always_false<T>, "an operator in ops.def has an argument type that visit.h does not know");
  }
}

}  // namespace kft
#endif  // KFT_VISIT_H_
