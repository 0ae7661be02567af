#include "to_python.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace kft {

namespace {

const char* dtype_name(int32_t dtype) {
  static constexpr const char* names[] = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"};
  return dtype >= KFR_BOOL && dtype <= KFR_F64 ? names[dtype - KFR_BOOL] : "other";
}

std::string hex(int64_t bits) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

py::object number(double v) {
  if (std::isnan(v)) return py::str("nan");
  if (std::isinf(v)) return py::str(v > 0 ? "inf" : "-inf");
  return py::float_(v);
}

py::dict describe(const Argument& a, const char* name) {
  py::dict out;
  if (name != nullptr) out["name"] = name;
  const std::string_view kind = a.kind;
  out["kind"] = a.kind;
  if (kind == "tensor") {
    out["dtype"] = dtype_name(a.dtype);
    out["sizes"] = a.sizes;
    out["strides"] = a.strides;
  } else if (kind == "tensors") {
    py::list items;
    for (const Argument& item : a.items) items.append(describe(item, nullptr));
    out["items"] = items;
  } else if (kind == "wrapped") {
    out["dtype"] = dtype_name(a.dtype);
    out["wrapped_number"] = a.flag;
    out["bits"] = hex(a.bits);
  } else if (kind == "bool") {
    out["value"] = a.flag;
  } else if (kind == "int") {
    out["value"] = a.bits;
  } else if (kind == "float") {
    out["value"] = number(std::bit_cast<double>(a.bits));
    out["bits"] = hex(a.bits);
  } else if (kind == "string") {
    out["value"] = a.text;
  } else if (kind == "ints") {
    out["value"] = a.sizes;
  } else if (kind == "dtype") {
    out["value"] = dtype_name(dtype_of(static_cast<at::ScalarType>(a.dtype)));
  } else if (kind == "scalar") {
    const std::string_view type = a.scalar_type;
    out["type"] = a.scalar_type;
    if (type == "bool") out["value"] = a.bits != 0;
    if (type == "int") out["value"] = a.bits;
    if (type == "float") {
      out["value"] = number(std::bit_cast<double>(a.bits));
      out["bits"] = hex(a.bits);
    }
  }
  return out;
}

py::dict call_of(const OpEntry& entry, const std::vector<Argument>& arguments, const std::vector<Output>& outputs) {
  py::list args, outs;
  for (size_t i = 0; i < arguments.size(); ++i) args.append(describe(arguments[i], entry.schema->arguments()[i].name().c_str()));
  for (const Output& o : outputs)
    outs.append(py::dict("dtype"_a = dtype_name(o.dtype), "sizes"_a = o.sizes, "strides"_a = o.strides, "alias"_a = o.alias));
  return py::dict("overload"_a = entry.full_name, "args"_a = args, "outputs"_a = outs);
}

// A 0-dim tensor's bytes as the Python number that makes the same wrapped number, or as a tensor if it was none.
py::object wrapped_value(const Argument& a) {
  at::Tensor t = at::scalar_tensor(0, at::TensorOptions(torch_dtype(a.dtype)));
  std::memcpy(t.mutable_data_ptr(), &a.bits, t.itemsize());
  if (!a.flag) return py::cast(t);
  const at::Scalar v = t.item();
  if (v.isBoolean()) return py::bool_(v.to<bool>());
  if (v.isFloatingPoint()) return py::float_(v.to<double>());
  return py::int_(v.to<int64_t>());
}

// The argument as Python passes it to torch.ops.
py::object argument(const Argument& a) {
  const std::string_view kind = a.kind;
  if (kind == "tensor") return py::cast(a.payload);
  if (kind == "tensors") {
    py::list items;
    for (const Argument& item : a.items) items.append(argument(item));
    return items;
  }
  if (kind == "wrapped") return wrapped_value(a);
  if (kind == "bool") return py::bool_(a.flag);
  if (kind == "int") return py::int_(a.bits);
  if (kind == "float") return py::float_(std::bit_cast<double>(a.bits));
  if (kind == "string") return py::str(a.text);
  if (kind == "ints") return py::cast(a.sizes);
  if (kind == "dtype")
    return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<at::ScalarType>(a.dtype))));
  if (kind == "scalar") {
    const std::string_view type = a.scalar_type;
    if (type == "bool") return py::bool_(a.bits != 0);
    if (type == "int") return py::int_(a.bits);
    return py::float_(std::bit_cast<double>(a.bits));
  }
  return py::none();
}

c10::IValue wrapped_number(const py::handle& value) {
  const at::Scalar scalar = py::isinstance<py::bool_>(value)  ? at::Scalar(value.cast<bool>())
                            : py::isinstance<py::int_>(value) ? at::Scalar(value.cast<int64_t>())
                                                              : at::Scalar(value.cast<double>());
  at::Tensor t = c10::scalar_to_tensor(scalar);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

}  // namespace

bool is_hooked(const std::string& overload) {
  const auto& hooked = install().hooked;
  return std::find(hooked.begin(), hooked.end(), overload) != hooked.end();
}

py::list records_to_python(std::vector<Record> records) {
  py::list out;
  for (const Record& r : records) {
    py::list payloads;
    for (const auto& payload : r.payloads) {
      py::list args;
      for (const Argument& a : payload) args.append(argument(a));
      payloads.append(args);
    }
    out.append(py::dict("id"_a = r.id, "overload"_a = r.entry->full_name, "call"_a = call_of(*r.entry, r.arguments, r.outputs),
                        "calls"_a = r.calls, "total_ns"_a = r.total_ns, "samples_ns"_a = r.samples_ns,
                        "children"_a = std::vector<std::string>(r.children.begin(), r.children.end()), "layout"_a = r.layout,
                        "payloads"_a = payloads, "align"_a = r.align, "composite"_a = (r.entry->marks & kComposite) != 0, "grad"_a = r.grad,
                        "target"_a = r.target == Target::cuda ? "cuda" : "host", "device"_a = r.device));
  }
  return out;
}

py::list trace_to_python(std::vector<TraceEntry> entries) {
  py::list out;
  for (const TraceEntry& t : entries) {
    py::object plan = py::none(), reason = py::none();
    if (t.plan != nullptr) {
      kfr_plan_info info;
      if (kfr_plan_info_get(t.plan, &info) == KFR_OK) plan = py::str(info.id);
    } else {
      reason = py::str(reason_name(t.reason));
    }
    out.append(py::dict("overload"_a = t.entry->full_name, "call"_a = call_of(*t.entry, t.arguments, t.outputs), "plan"_a = plan,
                        "reason"_a = reason, "depth"_a = t.depth));
  }
  return out;
}

py::dict plan_info(const Plan& plan) {
  const kfr_plan_info info = plan.info();
  return py::dict("id"_a = info.id, "overload"_a = plan.overload(), "device"_a = info.device, "inputs"_a = info.inputs,
                  "outputs"_a = info.outputs, "workspaces"_a = info.workspaces,
                  "align"_a = std::vector<uint32_t>(info.align, info.align + info.inputs + info.outputs),
                  "deterministic"_a = info.deterministic != 0, "exact"_a = info.exact != 0, "hits"_a = plan.hits(false),
                  "published"_a = plan.published());
}

py::dict device_info(int32_t device) {
  kfr_device_info info{};
  kfr_error error{};
  {
    const py::gil_scoped_release release;
    check(kfr_device_open(device, &info, &error), error);
  }
  std::string uuid;
  for (const uint8_t byte : info.uuid) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", byte);
    uuid += text;
  }
  return py::dict("name"_a = std::string(info.name), "capability"_a = py::make_tuple(info.major, info.minor), "sm_count"_a = info.sm_count,
                  "driver"_a = info.driver, "warp"_a = info.warp, "l2_bytes"_a = info.l2_bytes, "smem_optin"_a = info.smem_optin,
                  "memory_bytes"_a = info.memory_bytes, "vmm"_a = info.vmm != 0, "read_only"_a = info.read_only != 0, "uuid"_a = uuid,
                  "pci"_a = std::string(info.pci));
}

int32_t device_ordinal(const py::object& device) {
  if (py::isinstance<py::int_>(device)) return device.cast<int32_t>();
  const std::string text = py::str(device);
  if (text == "cpu" || text == "host") return KFR_HOST;
  if (text == "cuda") return 0;
  if (text.rfind("cuda:", 0) == 0 && text.size() > 5 && text.size() < 9 && text.find_first_not_of("0123456789", 5) == std::string::npos)
    return std::stoi(text.substr(5));
  throw RuntimeFault(KFR_NO_DEVICE, "find device `" + text + "`: no such device (expected `cpu` or `cuda:0`)");
}

Stack stack_from(const c10::FunctionSchema& schema, const py::sequence& args) {
  const auto& wanted = schema.arguments();
  if (args.size() > wanted.size()) {
    throw RuntimeFault(KFR_BAD_ARGUMENT, "call `" + schema.name() + "`: " + std::to_string(args.size()) + " arguments (expected at most " +
                                             std::to_string(wanted.size()) + ")");
  }
  Stack stack;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= args.size()) {
      if (!wanted[i].default_value().has_value()) {
        throw RuntimeFault(KFR_BAD_ARGUMENT,
                           "call `" + schema.name() + "`: argument `" + wanted[i].name() + "` is missing and has no default");
      }
      stack.push_back(*wanted[i].default_value());
      continue;
    }
    const py::object value = args[i];
    const bool is_number = py::isinstance<py::bool_>(value) || py::isinstance<py::int_>(value) || py::isinstance<py::float_>(value);
    if (is_number && wanted[i].type()->kind() == c10::TypeKind::TensorType) {
      stack.push_back(wrapped_number(value));
    } else {
      stack.push_back(torch::jit::argumentToIValue(schema, i, value));
    }
  }
  return stack;
}

py::list outputs_to_python(Stack stack) {
  py::list out;
  for (auto& value : stack) out.append(torch::jit::toPyObject(std::move(value)));
  return out;
}

}  // namespace kft
