// Records, calls and arguments as Python objects, and Python arguments as an operator's stack.
#ifndef KFT_TO_PYTHON_H_
#define KFT_TO_PYTHON_H_

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "observe.h"
#include "plans.h"
#include "timing.h"

namespace kft {

namespace py = pybind11;
using namespace pybind11::literals;

py::list records_to_python(std::vector<Record> records);
py::list trace_to_python(std::vector<TraceEntry> entries);
py::dict plan_info(const Plan& plan);
py::dict device_info(int32_t device);
bool is_hooked(const std::string& overload);

// KFR_HOST for "cpu", torch.device("cpu") or KFR_HOST itself; a CUDA ordinal otherwise.
int32_t device_ordinal(const py::object& device);

// Python arguments in schema order as a stack. Missing ones take their defaults. A number where the schema wants a tensor becomes a wrapped
// number, as `x + 1.0` makes one.
Stack stack_from(const c10::FunctionSchema& schema, const py::sequence& args);
py::list outputs_to_python(Stack stack);

}  // namespace kft
#endif  // KFT_TO_PYTHON_H_
