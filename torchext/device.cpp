#include "device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <string>

#include "kf_runtime.h"
#include "plans.h"

namespace kft {

bool torch_has_cuda() { return c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA); }

void need_cuda(const char* what) {
  if (torch_has_cuda()) return;
  throw RuntimeFault(KFR_NO_DEVICE, std::string(what) + ": this torch was built without CUDA (expected one with it)\n" +
                                        "hint: install torch from an index of CUDA builds, or use the host target (`cpu`)");
}

c10::Allocator* cuda_allocator() { return at::detail::getCUDAHooks().getCUDADeviceAllocator(); }

bool stream_is_capturing(void* stream) {
  // The driver that torch has open. Its answer costs no wait and breaks no capture. On the default stream it is the error 906,
  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, while a blocking stream captures: work there would break that capture.
  using Query = int (*)(void* stream, int* status);
  static const auto query = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver == nullptr ? nullptr : reinterpret_cast<Query>(dlsym(driver, "cuStreamIsCapturing"));
  }();
  constexpr int kImplicit = 906;
  int status = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
  if (query == nullptr) return false;
  const int answer = query(stream, &status);
  return answer == kImplicit || (answer == 0 && status != 0);
}

void* current_stream(int32_t device) { return device == KFR_HOST ? nullptr : OnDevice(device).stream(); }

}  // namespace kft
