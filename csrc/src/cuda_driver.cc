// cuda_driver.cc: finding the driver, and saying what its errors mean.
#include "cuda_driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include "error.h"

namespace kf::cuda {
namespace {

constexpr int32_t kOldest = 12000;  // CUDA 12.0 brought cuLibraryLoadData

struct Meaning {
  Result first, last;
  kfr_status status;
  const char* hint;
};
constexpr const char* kLost = "only a new process gets a working context again";
constexpr const char* kMps =
    "CUDA MPS is set up but not usable here: start its server, or unset CUDA_MPS_PIPE_DIRECTORY; the search needs it off";
constexpr const char* kMismatch = "the driver's library and kernel module differ: restart the machine, or install the driver again";

// What a result means wherever it comes from. The faults leave the process without a usable context.
constexpr Meaning kMeanings[] = {
    {2, 2, KFR_SYSTEM, "free memory on this GPU: `nvidia-smi` lists its processes, torch.cuda.empty_cache() gives back what torch keeps"},
    {3, 3, KFR_NO_DEVICE, "CUDA does not survive a fork: start processes by the method `spawn`"},
    {34, 34, KFR_NO_DEVICE, "a stub of the toolkit was found in place of the driver: take the folder `stubs` out of LD_LIBRARY_PATH"},
    {46, 46, KFR_NO_DEVICE, "another process holds this GPU in exclusive mode: end it, or `nvidia-smi -c DEFAULT`"},
    {100, 100, KFR_NO_DEVICE, "no GPU is visible: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES"},
    {101, 101, KFR_NO_DEVICE, "ordinals count the devices that CUDA_VISIBLE_DEVICES leaves"},
    {200, 200, KFR_BAD_CODE, "the compiler may be newer than the driver: use an NVRTC of the driver's CUDA version"},
    {209, 209, KFR_BAD_CODE, "the image is for another architecture: judge again on this GPU"},
    {214, 214, KFR_FAULT, "the GPU's memory has an error that ECC could not correct; look at `nvidia-smi -q`"},
    {218, 218, KFR_BAD_CODE, ""},
    {220, 220, KFR_FAULT, kLost},
    {222, 222, KFR_BAD_CODE, "the compiler is newer than the driver: use an NVRTC of the driver's CUDA version"},
    {226, 226, KFR_FAULT, kLost},
    {700, 700, KFR_FAULT, kLost},
    {702, 702, KFR_FAULT, "a kernel ran longer than this GPU's display watchdog allows"},
    {709, 710, KFR_FAULT, kLost},
    {714, 719, KFR_FAULT, kLost},
    {721, 721, KFR_FAULT, kLost},
    {802, 802, KFR_NO_DEVICE, "the GPU's services are not up: on machines with NVSwitch the fabric manager must run"},
    {803, 804, KFR_NO_DEVICE, kMismatch},
    {805, 805, KFR_NO_DEVICE, kMps},
    {806, 806, KFR_FAULT, kMps},
    {807, 809, KFR_NO_DEVICE, kMps},
    {810, 810, KFR_FAULT, kMps},
    {999, 999, KFR_DRIVER, "the system log (`dmesg`) may say more"},
};

const Driver* opened = nullptr;  // written once, under the mutex of driver()

std::string describe(Result result) {
  const char *name = nullptr, *text = nullptr;
  if (opened != nullptr) {
    opened->cuGetErrorName(result, &name);
    opened->cuGetErrorString(result, &text);
  }
  std::string out = name == nullptr ? "driver error " + std::to_string(result) : std::string(name);
  return text == nullptr ? out : out + " (" + text + ")";
}

[[noreturn]] void unusable(const std::string& found, const std::string& hint) {
  throw Error(KFR_NO_DEVICE, "open the CUDA driver: " + found, hint);
}

std::string version_text(int32_t version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

const Driver* open_driver() {
  const char* given = std::getenv("KERNELFORGE_LIBCUDA");
  const char* path = given != nullptr && *given != 0 ? given : "libcuda.so.1";
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // never closed: the driver has threads of its own
  if (library == nullptr) {
    const char* why = dlerror();
    unusable(std::string(why == nullptr ? path : why), "install the NVIDIA driver; in a container, start it with GPUs");
  }
  auto found = std::make_unique<Driver>();
  const char* missing = nullptr;
  auto find = [&](const char* symbol) {
    void* at = dlsym(library, symbol);
    if (at == nullptr && missing == nullptr) missing = symbol;
    return at;
  };
#define KF_CUDA_FIND(member, symbol, parameters) found->member = reinterpret_cast<decltype(found->member)>(find(symbol));
  KF_CUDA_FUNCTIONS(KF_CUDA_FIND)
#undef KF_CUDA_FIND
  found->cuKernelGetParamInfo = reinterpret_cast<decltype(found->cuKernelGetParamInfo)>(dlsym(library, "cuKernelGetParamInfo"));
  if (found->cuDriverGetVersion != nullptr && found->cuDriverGetVersion(&found->version) != kSuccess) found->version = 0;
  if (missing != nullptr || found->version < kOldest) {
    std::string lacks = missing == nullptr ? "" : ", and it lacks `" + std::string(missing) + "`";
    unusable("`" + std::string(path) + "` is a driver for CUDA " + version_text(found->version) + lacks + " (expected CUDA " +
                 version_text(kOldest) + " or newer)",
             "install a newer NVIDIA driver");
  }
  return found.release();  // kept for the life of the process
}

}  // namespace

const Driver& driver() {
  static std::mutex& mutex = *new std::mutex;
  static const Driver* ready = nullptr;
  std::lock_guard lock(mutex);
  if (ready != nullptr) return *ready;
  if (opened == nullptr) opened = open_driver();
  Result result = opened->cuInit(0);
  if (result != kSuccess) refuse(result, "start the CUDA driver", KFR_NO_DEVICE);
  return *(ready = opened);
}

void refuse(Result result, const std::string& what, kfr_status otherwise) {
  for (const Meaning& m : kMeanings) {
    if (result >= m.first && result <= m.last) throw Error(m.status, what + ": " + describe(result), m.hint);
  }
  throw Error(otherwise, what + ": " + describe(result));
}

}  // namespace kf::cuda
