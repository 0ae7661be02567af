// spec_fuzz.cc: any bytes as an expression, and as the JSON of a plan (call, spec, facts). No image is loaded: it is empty, so the last step refuses.
#include <cstdlib>

#include "kf_runtime.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const char* text = reinterpret_cast<const char*>(data);
  const char* names[] = {"n", "threads", "self_size0"};
  const int64_t values[] = {7, 2, INT64_MIN};
  int64_t result = 0;
  kfr_error error{};
  if (kfr_expr_eval(text, size, names, values, 3, &result, &error) == KFR_OK && size == 0) abort();  // nothing has no value

  kfr_plan* plan = nullptr;
  kfr_status status = kfr_plan_create(text, size, "", 0, KFR_HOST, &plan, &error);
  if (status == KFR_OK || plan != nullptr || error.code != status || error.text[0] == 0) abort();
  return 0;
}
