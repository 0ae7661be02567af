// fake_cuda.cc: devices, contexts, and the controls of tests.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "fake_cuda_state.h"

namespace kf::cuda {
struct ContextTag {
  int device;
};
}  // namespace kf::cuda

namespace fake {
namespace {

ContextTag contexts[2] = {{0}, {1}};
thread_local std::vector<Context> stack;
thread_local int32_t capture_mode = 0;  // global

const std::map<Result, std::pair<const char*, const char*>> kNames = {
    {0, {"CUDA_SUCCESS", "no error"}},
    {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {46, {"CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"}},
    {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {209, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
    {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {701, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
    {805, {"CUDA_ERROR_MPS_CONNECTION_FAILED", "MPS client failed to connect to the MPS control daemon or the MPS server"}},
};

// Pairs such as "cuInit=100" in an environment variable.
template <class F>
void read_pairs(const char* variable, F&& each) {
  const char* text = std::getenv(variable);
  std::istringstream in(text == nullptr ? "" : text);
  for (std::string pair; in >> pair;) {
    size_t at = pair.find('=');
    if (at != std::string::npos) each(pair.substr(0, at), std::atoll(pair.c_str() + at + 1));
  }
}

void read_environment() {
  read_pairs("KF_FAKE_CUDA", [](const std::string& name, int64_t value) { state().can[name] = value; });
  read_pairs("KF_FAKE_FAIL",
             [](const std::string& name, int64_t value) { state().injected[name] = {static_cast<Result>(value), 0, INT32_MAX}; });
}

}  // namespace

State& state() {
  static State& s = *new State;
  return s;
}

Context current() { return stack.empty() ? nullptr : stack.back(); }

Call::Call(const char* symbol, unsigned needs, const std::string& text) : refused(0), lock_(state().mutex) {
  State& s = state();
  s.note(std::string(symbol) + (text.empty() ? "" : " " + text));
  auto injected = s.injected.find(symbol);
  if (injected != s.injected.end()) {
    Injected& i = injected->second;
    if (i.skip > 0) {
      --i.skip;
    } else if (i.times > 0) {
      --i.times;
      refused = i.result;
      return;
    }
  }
  if ((needs & kStarted) && !s.started)
    refused = kNotInitialized;
  else if ((needs & kContext) && current() == nullptr)
    refused = kInvalidContext;
  else if ((needs & kContext) && s.fault != 0)
    refused = s.fault;
  else if ((needs & kUnsafe) && s.capture_elsewhere && capture_mode != kCaptureRelaxed)
    refused = kCaptureUnsupported;
}

KF_FAKE Result cuInit(uint32_t) {
  static bool read = (read_environment(), true);
  static_cast<void>(read);
  Call call("cuInit", kNothing);
  if (call.refused == 0) state().started = true;
  return call.refused;
}
KF_FAKE Result cuDriverGetVersion(int32_t* version) {  // the one call that may come before cuInit
  const char* text = std::getenv("KF_FAKE_CUDA");
  const char* at = text == nullptr ? nullptr : std::strstr(text, "driver=");
  *version = at != nullptr ? std::atoi(at + 7) : static_cast<int32_t>(state().can["driver"]);
  return 0;
}
KF_FAKE Result cuGetErrorName(Result result, const char** name) {
  auto at = kNames.find(result);
  *name = at == kNames.end() ? nullptr : at->second.first;
  return at == kNames.end() ? kInvalidValue : 0;
}
KF_FAKE Result cuGetErrorString(Result result, const char** text) {
  auto at = kNames.find(result);
  *text = at == kNames.end() ? nullptr : at->second.second;
  return at == kNames.end() ? kInvalidValue : 0;
}
KF_FAKE Result cuDeviceGetCount(int32_t* count) {
  Call call("cuDeviceGetCount", kStarted);
  *count = static_cast<int32_t>(state().can["devices"]);
  return call.refused;
}
KF_FAKE Result cuDeviceGet(DeviceId* device, int32_t ordinal) {
  Call call("cuDeviceGet", kStarted);
  if (call.refused == 0 && (ordinal < 0 || ordinal >= state().can["devices"] || ordinal > 1)) return kInvalidDevice;
  *device = ordinal;
  return call.refused;
}
KF_FAKE Result cuDeviceGetName(char* name, int32_t n, DeviceId device) {
  Call call("cuDeviceGetName", kStarted);
  std::snprintf(name, static_cast<size_t>(n), "Fake GPU %d", device);
  return call.refused;
}
KF_FAKE Result cuDeviceGetUuid_v2(Uuid* uuid, DeviceId device) {
  Call call("cuDeviceGetUuid_v2", kStarted);
  for (size_t i = 0; i < sizeof uuid->bytes; ++i) uuid->bytes[i] = static_cast<uint8_t>(16 * device + static_cast<int>(i));
  return call.refused;
}
KF_FAKE Result cuDeviceGetPCIBusId(char* id, int32_t n, DeviceId device) {
  Call call("cuDeviceGetPCIBusId", kStarted);
  std::snprintf(id, static_cast<size_t>(n), "0000:%02x:00.0", 0x19 + device);
  return call.refused;
}
KF_FAKE Result cuDeviceGetAttribute(int32_t* value, int32_t attribute, DeviceId) {
  Call call("cuDeviceGetAttribute", kStarted, std::to_string(attribute));
  auto can = [&](const char* what) { return static_cast<int32_t>(state().can[what]); };
  const std::map<int32_t, int32_t> values = {
      {kWarpSize, 32},       {kSmCount, 132},        {kL2CacheSize, 62914560},     {kCapabilityMajor, can("major")},
      {kCapabilityMinor, 0}, {kSharedOptin, 232448}, {kVirtualMemory, can("vmm")}, {kPosixDescriptors, can("vmm")}};
  auto at = values.find(attribute);
  if (at == values.end()) return kInvalidValue;
  *value = at->second;
  return call.refused;
}
KF_FAKE Result cuDeviceTotalMem_v2(size_t* bytes, DeviceId) {
  Call call("cuDeviceTotalMem_v2", kStarted);
  *bytes = size_t{141} << 30;
  return call.refused;
}
KF_FAKE Result cuDevicePrimaryCtxRetain(Context* context, DeviceId device) {
  Call call("cuDevicePrimaryCtxRetain", kStarted);
  if (call.refused == 0) *context = &contexts[device];
  return call.refused;
}
KF_FAKE Result cuCtxGetCurrent(Context* context) {
  Call call("cuCtxGetCurrent", kStarted);
  *context = current();
  return call.refused;
}
KF_FAKE Result cuCtxSetCurrent(Context context) {
  Call call("cuCtxSetCurrent", kStarted);
  if (call.refused != 0) return call.refused;
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return 0;
}
KF_FAKE Result cuCtxPushCurrent_v2(Context context) {
  Call call("cuCtxPushCurrent_v2", kStarted);
  if (call.refused == 0) stack.push_back(context);
  return call.refused;
}
KF_FAKE Result cuCtxPopCurrent_v2(Context* context) {
  Call call("cuCtxPopCurrent_v2", kStarted);
  if (stack.empty()) {
    state().complain("a context is popped off an empty stack");
    return kInvalidContext;
  }
  *context = stack.back();
  stack.pop_back();
  return 0;
}
KF_FAKE Result cuCtxSynchronize() { return Call("cuCtxSynchronize", kStarted | kContext | kUnsafe).refused; }
KF_FAKE Result cuThreadExchangeStreamCaptureMode(int32_t* mode) {
  Call call("cuThreadExchangeStreamCaptureMode", kStarted, std::to_string(*mode));
  if (call.refused == 0) std::swap(*mode, capture_mode);
  return call.refused;
}

// ---- controls ----------------------------------------------------------------------------------------------

KF_FAKE const char* kf_fake_log() {
  std::lock_guard lock(state().mutex);
  state().shown = state().log;
  return state().shown.c_str();
}
KF_FAKE void kf_fake_clear() {
  std::lock_guard lock(state().mutex);
  state().log.clear();
}
KF_FAKE void kf_fake_fail(const char* symbol, int32_t result, int32_t skip, int32_t times) {
  std::lock_guard lock(state().mutex);
  state().injected[symbol] = {result, skip, times};
}
KF_FAKE void kf_fake_fault(int32_t result) {
  std::lock_guard lock(state().mutex);
  state().next_fault = result;
  if (result == 0) state().fault = 0;
}
KF_FAKE void kf_fake_capture_elsewhere(int32_t on) {
  std::lock_guard lock(state().mutex);
  state().capture_elsewhere = on != 0;
}
KF_FAKE void kf_fake_set(const char* what, int64_t value) {
  std::lock_guard lock(state().mutex);
  state().can[what] = value;
}
KF_FAKE int64_t kf_fake_alive(const char* what) {
  std::lock_guard lock(state().mutex);
  return state().alive[what];
}
KF_FAKE const char* kf_fake_complaints() {
  std::lock_guard lock(state().mutex);
  return state().complaints.c_str();
}

}  // namespace fake
