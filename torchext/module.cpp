// kernelforge._C: the Python face of the hooks. The only file that includes Python; what it does is said beside each function in the stub _C.pyi.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <map>
#include <memory>
#include <optional>

#include "buffer.h"
#include "device.h"
#include "discovery.h"
#include "observe.h"
#include "plans.h"
#include "registry.h"
#include "timing.h"
#include "to_python.h"

namespace kft {
namespace {

c10::OperatorHandle find_operator(const std::string& overload) {
  const size_t colons = overload.find("::");
  const size_t dot = overload.find('.', colons == std::string::npos ? 0 : colons);
  const auto found = c10::Dispatcher::singleton().findSchema(
      {overload.substr(0, dot), dot == std::string::npos ? std::string() : overload.substr(dot + 1)});
  if (!found.has_value()) throw RuntimeFault(KFR_BAD_ARGUMENT, "find operator `" + overload + "`: this torch has none of that name");
  return *found;
}

std::vector<Stack> sets_from(const c10::OperatorHandle& op, const py::sequence& sets) {
  std::vector<Stack> out;
  for (const auto& set : sets) out.push_back(stack_from(op.schema(), py::cast<py::sequence>(set)));
  return out;
}

py::list published_infos() {
  py::list out;
  for (const auto& plan : published_plans()) {
    if (plan->published()) out.append(plan_info(*plan));
  }
  return out;
}

static_assert(static_cast<size_t>(Reason::kCount) <= KFR_MAX_REASONS);

py::dict fallbacks_of(const Plan& plan, bool reset) {
  py::dict found;
  for (uint32_t i = 0; i < static_cast<uint32_t>(Reason::kCount); ++i) {
    const uint64_t n = plan.fallbacks(i, reset);
    if (n != 0) found[reason_name(static_cast<Reason>(i))] = n;
  }
  return found;
}

py::dict stats(bool reset) {
  std::map<std::string, uint64_t> op_hits;
  py::list plans;
  for (const auto& plan : published_plans()) {
    const uint64_t hits = plan->hits(reset);
    const std::string overload = plan->overload();
    op_hits[overload] += hits;
    const py::dict fallbacks = fallbacks_of(*plan, reset);
    if (!plan->published() && hits == 0) continue;
    plans.append(py::dict("id"_a = plan->info().id, "overload"_a = overload, "hits"_a = hits, "fallbacks"_a = fallbacks,
                          "published"_a = plan->published()));
  }
  py::dict ops;
  for (OpEntry* entry : entries()) {
    py::dict fallbacks;
    for (size_t i = 0; i < static_cast<size_t>(Reason::kCount); ++i) {
      const uint64_t n =
          reset ? entry->fallbacks[i].exchange(0, std::memory_order_relaxed) : entry->fallbacks[i].load(std::memory_order_relaxed);
      if (n != 0) fallbacks[reason_name(static_cast<Reason>(i))] = n;
    }
    const uint64_t hits = op_hits[entry->full_name];
    if (hits != 0 || fallbacks.size() != 0) ops[entry->full_name.c_str()] = py::dict("hits"_a = hits, "fallbacks"_a = fallbacks);
  }
  return py::dict("plans"_a = plans, "ops"_a = ops);
}

py::list op_table() {
  py::list out;
  for (const OpEntry* entry : entries()) {
    static constexpr const char* forms[] = {"functional", "inplace", "out"};
    out.append(py::dict("overload"_a = entry->full_name, "forms"_a = py::make_tuple(forms[static_cast<size_t>(entry->form)]),
                        "template"_a = (entry->marks & kTemplates) != 0, "composite"_a = (entry->marks & kComposite) != 0,
                        "servable"_a = entry->servable));
  }
  return out;
}

py::dict installed() {
  const Installed& done = install();
  py::list refused;
  for (const Refusal& refusal : done.refused) refused.append(py::dict("overload"_a = refusal.overload, "why"_a = refusal.why));
  return py::dict("hooked"_a = done.hooked, "refused"_a = refused, "missing"_a = done.missing, "disabled"_a = done.disabled);
}

std::shared_ptr<Plan> open_plan(const std::string& json, const py::bytes& image, const py::object& device) {
  const std::string_view code = image;
  const int32_t ordinal = device_ordinal(device);
  const py::gil_scoped_release release;
  return plan_open(json, code.data(), code.size(), ordinal);
}

// `with _C.thread_off():` the thread's hooks redispatch; nests; entering or leaving on another thread is refused.
class ThreadOffContext {
 public:
  ThreadOffContext() = default;
  // What is still open was entered on a thread whose count this one cannot reach: it stays off, and this one as it was.
  ~ThreadOffContext() {
    if (thread_ == this_thread()) return;
    for (auto& off : off_) static_cast<void>(off.release());
  }
  ThreadOffContext(const ThreadOffContext&) = delete;
  ThreadOffContext& operator=(const ThreadOffContext&) = delete;

  void enter() {
    if (!off_.empty() && thread_ != this_thread())
      throw RuntimeFault(KFR_BAD_ARGUMENT, "enter thread_off: it is open on another thread (expected one of this thread's own)");
    off_.push_back(std::make_unique<ThreadOff>());
    thread_ = this_thread();
  }
  void leave() {
    if (off_.empty() || thread_ != this_thread()) {
      throw RuntimeFault(KFR_BAD_ARGUMENT, "leave thread_off: it was not entered on this thread");
    }
    off_.pop_back();
  }

 private:
  // Names this thread for as long as a context knows it; a thread's id and the place of its variables are given out again when it has ended.
  static const std::shared_ptr<char>& this_thread() {
    static thread_local const auto name = std::make_shared<char>();
    return name;
  }

  std::vector<std::unique_ptr<ThreadOff>> off_;
  std::shared_ptr<char> thread_;
};

}  // namespace
}  // namespace kft

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace kft;
  m.doc() = "Hooks at torch's dispatcher: capture, guarded dispatch, counters, timing.";

  static py::exception<RuntimeFault> fault(m, "Fault", PyExc_RuntimeError);
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const RuntimeFault& e) {
      py::object made = py::reinterpret_borrow<py::object>(fault.ptr())(e.what());
      made.attr("code") = e.code;
      PyErr_SetObject(fault.ptr(), made.ptr());
    }
  });

  m.def("install", &installed);
  m.def("abi", [] { return kfr_abi_version(); });
  m.def("build_info", [] {
    return py::dict("torch"_a = TORCH_VERSION, "runtime_abi"_a = KFR_ABI_VERSION, "compiler"_a = __VERSION__,
                    "targets"_a = py::make_tuple("host", "cuda"), "torch_cuda"_a = torch_has_cuda());
  });
  m.def("set_enabled", [](bool on) { mode_set(kDisabled, !on || disabled_by_environment()); });
  m.def("enabled", [] { return (g_mode.load(std::memory_order_relaxed) & kDisabled) == 0; });
  m.def("op_table", &op_table);
  m.def("stats", &stats, "reset"_a = false);

  py::class_<ThreadOffContext>(m, "thread_off")
      .def(py::init<>())
      .def("__enter__", [](ThreadOffContext& self) { self.enter(); })
      .def("__exit__", [](ThreadOffContext& self, const py::args&) { self.leave(); });

  m.def("capture_begin", &capture_begin, "payloads"_a = 0, "payload_bytes"_a = 0, py::call_guard<py::gil_scoped_release>());
  m.def("capture_end", [] { return records_to_python(capture_end()); });
  m.def("discovery_begin", &discovery_begin, py::call_guard<py::gil_scoped_release>());
  m.def("discovery_end", [] {
    py::list out;
    for (const Discovered& found : discovery_end()) {
      out.append(py::dict("name"_a = found.name, "calls"_a = found.calls, "total_ns"_a = found.total_ns, "self_ns"_a = found.self_ns,
                          "hooked"_a = is_hooked(found.name)));
    }
    return out;
  });
  m.def("trace_begin", &trace_begin);
  m.def("trace_end", [] { return trace_to_python(trace_end()); });

  py::class_<Plan, std::shared_ptr<Plan>>(m, "Plan")
      .def_property_readonly("id", [](const Plan& plan) { return plan.info().id; })
      .def_property_readonly("overload", &Plan::overload)
      .def_property_readonly("published", &Plan::published)
      .def_property_readonly("hits", [](const Plan& plan) { return plan.hits(false); })
      .def_property_readonly("fallbacks", [](const Plan& plan) { return fallbacks_of(plan, false); })
      .def_property_readonly("info", &plan_info);
  m.def("plan_open", &open_plan, "json"_a, "image"_a, "device"_a = "cpu");
  m.def(
      "pack_open",
      [](const std::string& folder, const std::optional<std::string>& pins, const py::object& device) {
        const int32_t ordinal = device_ordinal(device);
        const py::gil_scoped_release release;
        return pack_open(folder, pins.has_value() ? &*pins : nullptr, ordinal);
      },
      "folder"_a, "pins"_a = py::none(), "device"_a = "cpu");
  m.def("publish", &publish, "plans"_a, py::call_guard<py::gil_scoped_release>());
  m.def("unpublish", [] { publish({}); }, py::call_guard<py::gil_scoped_release>());
  m.def("plans", &published_infos);

  py::class_<Buffer>(m, "Buffer")
      .def(py::init([](uint64_t bytes, const py::object& device) {
             const int32_t ordinal = device_ordinal(device);
             const py::gil_scoped_release release;
             return Buffer(bytes, ordinal);
           }),
           "bytes"_a, "device"_a = KFR_HOST)
      .def_property_readonly("fd", &Buffer::fd)
      .def_property_readonly("device", &Buffer::device)
      .def("fill", &Buffer::fill, "offset"_a, "bytes"_a, "value"_a, py::call_guard<py::gil_scoped_release>())
      .def("push", &Buffer::push, py::call_guard<py::gil_scoped_release>())
      .def("pull", &Buffer::pull, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("bytes", &Buffer::bytes)
      .def_property_readonly("data_ptr", [](const Buffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.data()); })
      .def("tensor", &Buffer::tensor, "offset"_a, "dtype"_a, "sizes"_a, "strides"_a);

  m.def(
      "call",
      [](const std::string& overload, const py::sequence& args) {
        const auto op = find_operator(overload);
        Stack stack = stack_from(op.schema(), args);
        {
          const py::gil_scoped_release release;
          const Whole whole(op.operator_name());
          op.callBoxed(stack);
        }
        return outputs_to_python(std::move(stack));
      },
      "overload"_a, "args"_a);
  m.def(
      "time_calls",
      [](const std::string& overload, const py::sequence& sets, uint32_t samples, uint32_t inner, bool plans, bool warm) {
        const auto op = find_operator(overload);
        std::vector<Stack> stacks = sets_from(op, sets);
        const py::gil_scoped_release release;
        return time_calls(op, stacks, samples, inner, plans, warm);
      },
      "overload"_a, "arg_sets"_a, "samples"_a, "inner"_a, "plans"_a = true, "warm"_a = true);
  m.def(
      "time_blocks",
      [](const std::string& overload, const py::sequence& sets, uint32_t blocks, uint32_t inner, uint64_t seed, bool control,
         uint32_t padding) {
        const auto op = find_operator(overload);
        std::vector<Stack> stacks = sets_from(op, sets);
        Blocks found;
        {
          const py::gil_scoped_release release;
          found = time_blocks(op, stacks, {blocks, inner, control, padding}, seed);
        }
        return py::dict("eager_ns"_a = found.eager_ns, "again_ns"_a = found.again_ns, "ours_ns"_a = found.ours_ns);
      },
      "overload"_a, "arg_sets"_a, "blocks"_a, "inner"_a, "seed"_a = 0, "control"_a = false, "padding"_a = 0);
  m.def(
      "host_cost",
      [](const std::string& overload, const py::sequence& sets, uint32_t samples, uint32_t inner, bool plans, bool warm) {
        const auto op = find_operator(overload);
        const std::vector<Stack> stacks = sets_from(op, sets);
        const py::gil_scoped_release release;
        return host_cost(op, stacks, samples, inner, plans, warm);
      },
      "overload"_a, "arg_sets"_a, "samples"_a, "inner"_a, "plans"_a = true, "warm"_a = true);
  m.def(
      "hook_cost",
      [](const std::string& overload, const py::sequence& sets, uint32_t blocks, uint32_t inner, uint64_t seed) {
        const auto op = find_operator(overload);
        const std::vector<Stack> stacks = sets_from(op, sets);
        HookCost cost;
        {
          const py::gil_scoped_release release;
          cost = hook_cost(op, stacks, blocks, inner, seed);
        }
        return py::dict("bare_ns"_a = cost.bare_ns, "hooked_ns"_a = cost.hooked_ns);
      },
      "overload"_a, "arg_sets"_a, "blocks"_a, "inner"_a, "seed"_a = 0);
  m.def(
      "run_calls",
      [](const std::string& overload, const py::sequence& sets, uint32_t n, bool plans) {
        const auto op = find_operator(overload);
        const std::vector<Stack> stacks = sets_from(op, sets);
        const py::gil_scoped_release release;
        run_calls(op, stacks, n, plans);
      },
      "overload"_a, "arg_sets"_a, "n"_a, "plans"_a = true);
  m.def(
      "graph_time",
      [](const py::object& device, uintptr_t graph_exec, uintptr_t stream, uint32_t samples) {
        const int32_t ordinal = device_ordinal(device);
        const py::gil_scoped_release release;
        return graph_time(ordinal, reinterpret_cast<void*>(graph_exec), reinterpret_cast<void*>(stream), samples);
      },
      "device"_a, "graph_exec"_a, "stream"_a, "samples"_a);
  m.def(
      "time_reference",
      [](uint32_t samples, const py::object& device) {
        const int32_t ordinal = device_ordinal(device);
        const py::gil_scoped_release release;
        return time_reference(samples, ordinal);
      },
      "samples"_a, "device"_a = KFR_HOST);
  m.def("device_info", [](const py::object& device) { return device_info(device_ordinal(device)); }, "device"_a);
}
