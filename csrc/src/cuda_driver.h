// cuda_driver.h: the part of the CUDA driver that the runtime uses, declared here and found by dlopen: no CUDA header, no CUDA library at build time.
//
// Layouts and symbol versions are those of cuda.h (CUDA 12.0 and later, unchanged to 13.2); the static_asserts hold them.
#ifndef KF_CUDA_DRIVER_H_
#define KF_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "kf_runtime.h"

namespace kf::cuda {

using Result = int32_t;         // CUresult
using DeviceId = int32_t;       // CUdevice
using Address = uint64_t;       // CUdeviceptr
using MemoryHandle = uint64_t;  // CUmemGenericAllocationHandle
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
using LibraryHandle = struct LibraryTag*;
using KernelHandle = struct KernelTag*;  // without a context; cast to Function where cuda.h allows it: the current context counts then
using Function = struct FunctionTag*;    // of one context

enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidContext = 201,
  kNotSupported = 801,
};

enum : int32_t {  // CUdevice_attribute
  kWarpSize = 10,
  kSmCount = 16,
  kL2CacheSize = 38,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedOptin = 97,
  kVirtualMemory = 102,
  kPosixDescriptors = 103,
};

enum : int32_t {  // CUfunction_attribute
  kMaxThreads = 0,
  kSharedStatic = 1,
  kLocal = 3,
  kMaxDynamicShared = 8,
  kNonPortableCluster = 14,
};

enum : int32_t { kPinned = 1, kOnDevice = 1, kPosixDescriptor = 1, kGranularityMinimum = 0 };
enum : int32_t { kRead = 1, kReadWrite = 3 };           // CUmemAccess_flags
enum : int32_t { kCooperative = 2, kClusterDims = 4 };  // CUlaunchAttributeID
enum : int32_t { kCaptureRelaxed = 2 };                 // CUstreamCaptureMode
enum : uint32_t { kNonBlocking = 1, kLazyPeerAccess = 1 };

struct Location {  // CUmemLocation
  int32_t type, id;
};
struct AllocationProp {  // CUmemAllocationProp
  int32_t type, handle_types;
  Location location;
  void* windows;
  uint8_t compression, rdma;
  uint16_t usage;
  uint8_t reserved[4];
};
struct AccessDesc {  // CUmemAccessDesc
  Location location;
  int32_t flags;
};
struct IpcHandle {  // CUipcMemHandle, passed by value
  char bytes[64];
};
struct Uuid {
  uint8_t bytes[16];
};
struct LaunchAttribute {  // CUlaunchAttribute
  int32_t id;
  union alignas(8) {
    char pad[64];
    int32_t cooperative;
    uint32_t cluster[3];
  } value;
};
struct LaunchConfig {  // CUlaunchConfig
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(AllocationProp) == 32 && offsetof(AllocationProp, windows) == 16 && offsetof(AllocationProp, usage) == 26);
static_assert(sizeof(AccessDesc) == 12);
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32 && offsetof(LaunchConfig, attribute_count) == 48);

// member, exported symbol, parameters. The symbol's `_vN` is the version that cuda.h gives the plain name.
#define KF_CUDA_FUNCTIONS(X)                                                                                                          \
  X(cuInit, "cuInit", (uint32_t flags))                                                                                               \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int32_t* version))                                                                     \
  X(cuGetErrorName, "cuGetErrorName", (Result result, const char** name))                                                             \
  X(cuGetErrorString, "cuGetErrorString", (Result result, const char** text))                                                         \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int32_t* count))                                                                           \
  X(cuDeviceGet, "cuDeviceGet", (DeviceId * device, int32_t ordinal))                                                                 \
  X(cuDeviceGetName, "cuDeviceGetName", (char* name, int32_t n, DeviceId device))                                                     \
  X(cuDeviceGetUuid, "cuDeviceGetUuid_v2", (Uuid * uuid, DeviceId device))                                                            \
  X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char* id, int32_t n, DeviceId device))                                               \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int32_t* value, int32_t attribute, DeviceId device))                               \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t* bytes, DeviceId device))                                                        \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context * context, DeviceId device))                                       \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", (Context * context))                                                                          \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (Context context))                                                                            \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (Context context))                                                                       \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (Context * context))                                                                       \
  X(cuCtxSynchronize, "cuCtxSynchronize", ())                                                                                         \
  X(cuMemAlloc, "cuMemAlloc_v2", (Address * address, size_t bytes))                                                                   \
  X(cuMemFree, "cuMemFree_v2", (Address address))                                                                                     \
  X(cuMemCreate, "cuMemCreate", (MemoryHandle * handle, size_t bytes, const AllocationProp* prop, uint64_t flags))                    \
  X(cuMemRelease, "cuMemRelease", (MemoryHandle handle))                                                                              \
  X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", (void* os, MemoryHandle handle, int32_t type, uint64_t flags))      \
  X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", (MemoryHandle * handle, void* os, int32_t type))                \
  X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", (size_t* bytes, const AllocationProp* prop, int32_t option))      \
  X(cuMemAddressReserve, "cuMemAddressReserve", (Address * address, size_t bytes, size_t alignment, Address hint, uint64_t flags))    \
  X(cuMemAddressFree, "cuMemAddressFree", (Address address, size_t bytes))                                                            \
  X(cuMemMap, "cuMemMap", (Address address, size_t bytes, size_t offset, MemoryHandle handle, uint64_t flags))                        \
  X(cuMemUnmap, "cuMemUnmap", (Address address, size_t bytes))                                                                        \
  X(cuMemSetAccess, "cuMemSetAccess", (Address address, size_t bytes, const AccessDesc* access, size_t count))                        \
  X(cuIpcGetMemHandle, "cuIpcGetMemHandle", (IpcHandle * handle, Address address))                                                    \
  X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (Address * address, IpcHandle handle, uint32_t flags))                               \
  X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", (Address address))                                                                    \
  X(cuMemsetD8Async, "cuMemsetD8Async", (Address address, unsigned char value, size_t n, Stream stream))                              \
  X(cuMemcpyAsync, "cuMemcpyAsync",                                                                                                   \
    (Address to, Address from, size_t bytes, Stream stream)) /* also of the host: one space of addresses */                           \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (Address to, Address from, size_t bytes, Stream stream))                               \
  X(cuStreamCreate, "cuStreamCreate", (Stream * stream, uint32_t flags))                                                              \
  X(cuStreamSynchronize, "cuStreamSynchronize", (Stream stream))                                                                      \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (Stream stream, int32_t mode))                                                   \
  X(cuStreamEndCapture, "cuStreamEndCapture", (Stream stream, Graph * graph))                                                         \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int32_t* mode))                                          \
  X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (GraphExec * exec, Graph graph, uint64_t flags))                               \
  X(cuGraphUpload, "cuGraphUpload", (GraphExec exec, Stream stream))                                                                  \
  X(cuGraphLaunch, "cuGraphLaunch", (GraphExec exec, Stream stream))                                                                  \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", (GraphExec exec))                                                                       \
  X(cuGraphDestroy, "cuGraphDestroy", (Graph graph))                                                                                  \
  X(cuEventCreate, "cuEventCreate", (Event * event, uint32_t flags))                                                                  \
  X(cuEventRecord, "cuEventRecord", (Event event, Stream stream))                                                                     \
  X(cuEventSynchronize, "cuEventSynchronize", (Event event))                                                                          \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float* milliseconds, Event start, Event end))                                          \
  X(cuLibraryLoadData, "cuLibraryLoadData",                                                                                           \
    (LibraryHandle * library, const void* code, void* jit, void** jit_values, uint32_t jit_count, void* options, void** values,       \
     uint32_t count))                                                                                                                 \
  X(cuLibraryUnload, "cuLibraryUnload", (LibraryHandle library))                                                                      \
  X(cuLibraryGetKernel, "cuLibraryGetKernel", (KernelHandle * kernel, LibraryHandle library, const char* name))                       \
  X(cuKernelGetFunction, "cuKernelGetFunction", (Function * function, KernelHandle kernel))                                           \
  X(cuKernelGetAttribute, "cuKernelGetAttribute", (int32_t* value, int32_t attribute, KernelHandle kernel, DeviceId device))          \
  X(cuKernelSetAttribute, "cuKernelSetAttribute", (int32_t attribute, int32_t value, KernelHandle kernel, DeviceId device))           \
  X(cuOccupancyMaxActiveBlocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                                                        \
    (int32_t* blocks, Function function, int32_t block_size, size_t dynamic_shared))                                                  \
  X(cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters", (int32_t* clusters, Function function, const LaunchConfig* config)) \
  X(cuLaunchKernelEx, "cuLaunchKernelEx", (const LaunchConfig* config, Function function, void** parameters, void** extra))

struct Driver {
#define KF_CUDA_MEMBER(member, symbol, parameters) Result(*member) parameters = nullptr;
  KF_CUDA_FUNCTIONS(KF_CUDA_MEMBER)
#undef KF_CUDA_MEMBER
  // CUDA 12.4; NULL before: arguments are then not compared with the kernel's parameters.
  Result (*cuKernelGetParamInfo)(KernelHandle kernel, size_t index, size_t* offset, size_t* bytes) = nullptr;
  int32_t version = 0;  // 13000
};

// The driver of this process, initialized. The first call opens it: the file that KERNELFORGE_LIBCUDA names, or libcuda.so.1.
// Throws Error(KFR_NO_DEVICE) with a hint; a later call tries again.
const Driver& driver();

// Throws Error when the result is not success: `what` was tried. The driver's own name and text of the error follow, and a hint where one is known.
// otherwise: the status for errors that say nothing about device, memory or a fault.
[[noreturn]] void refuse(Result result, const std::string& what, kfr_status otherwise = KFR_DRIVER);
inline void check(Result result, const char* what, kfr_status otherwise = KFR_DRIVER) {
  if (result != kSuccess) refuse(result, what, otherwise);
}

}  // namespace kf::cuda
#endif  // KF_CUDA_DRIVER_H_
