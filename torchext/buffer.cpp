#include "buffer.h"

#include <ATen/ops/from_blob.h>

#include "plans.h"

namespace kft {

namespace {

std::shared_ptr<kfr_buffer> make(uint64_t bytes) {
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  check(kfr_buffer_create(bytes, KFR_HOST, &buffer, &error), error);
  return {buffer, kfr_buffer_free};
}

}  // namespace

Buffer::Buffer(uint64_t bytes) : handle_(make(bytes)) {}

at::Tensor Buffer::tensor(int64_t offset, at::ScalarType dtype, const std::vector<int64_t>& sizes,
                          const std::vector<int64_t>& strides) const {
  const auto item = static_cast<int64_t>(c10::elementSize(dtype));
  const auto outside = [&] {
    return RuntimeFault(KFR_BAD_ARGUMENT,
                        "view a buffer of " + std::to_string(bytes()) + " bytes at " + std::to_string(offset) +
                            ": the tensor does not lie inside (expected as many sizes as strides, none negative, an aligned offset)");
  };
  if (sizes.size() != strides.size() || offset < 0 || offset % item != 0) throw outside();
  int64_t last = 0;
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    if (sizes[i] < 0 || strides[i] < 0) throw outside();
    empty = empty || sizes[i] == 0;
    if (sizes[i] > 0 && (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last)))
      throw outside();
  }
  int64_t end = offset;
  if (!empty &&
      (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, item, &last) || __builtin_add_overflow(offset, last, &end)))
    throw outside();
  if (end < 0 || static_cast<uint64_t>(end) > bytes()) throw outside();
  return at::from_blob(static_cast<char*>(data()) + offset, sizes, strides, [keep = handle_](void*) {}, at::TensorOptions(dtype));
}

}  // namespace kft
