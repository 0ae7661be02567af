#include <ATen/Operators.h>

#include "hook.h"

namespace kft {

void add_binary(std::vector<OpEntry*>& list) {
#define KF_BINARY(entry, form, marks) add<at::_ops::entry, (marks)>(list, Form::form);
#include "ops.def"
}

}  // namespace kft
