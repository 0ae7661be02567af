// fake_cuda.h: a CUDA driver without a GPU, for tests: libcuda-fake.so, found through KERNELFORGE_LIBCUDA.
//
// It keeps real books: contexts a thread, memory as memory files mapped in the host with PROT_NONE around them, libraries out of made-up cubins (real
// ELF files whose section `.kf.host` holds an x86-64 shared object with the kernels as functions) or real ones (whose kernels do nothing), streams that capture, graphs that replay, and a
// clock that only work moves. What a real driver refuses for a reason that tests need, it refuses too. It owns no policy: tests inject errors.
//
// Environment, read at cuInit, for processes that are started with it:  KF_FAKE_CUDA="devices=2 driver=13000 major=9 vmm=1 read_only=1"
//                                                                       KF_FAKE_FAIL="cuInit=100 cuDevicePrimaryCtxRetain=46"
#ifndef KF_TESTS_FAKE_CUDA_H_
#define KF_TESTS_FAKE_CUDA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A kernel of a made-up cubin: parameters as the driver gets them.
typedef void (*kf_fake_kernel)(void** parameters, const uint32_t* grid, const uint32_t* block);

// The calls since the last clear, a line each; valid until the next call of this function.
const char* kf_fake_log(void);
void kf_fake_clear(void);

// The next `times` calls of a function (its exported name) give this result, after `skip` that do not. times 0 takes it back.
void kf_fake_fail(const char* symbol, int32_t result, int32_t skip, int32_t times);
// The next launch faults on the device: from then on every call that needs the context gives this result, until it is 0 again.
void kf_fake_fault(int32_t result);
// A stream capture in global mode is running in another thread: calls that it forbids fail, unless the calling thread's mode is relaxed.
void kf_fake_capture_elsewhere(int32_t on);
// What the device can: "driver", "major", "vmm", "read_only", "memory" (bytes that can be allocated), "kernel_ns",
// "occupancy" (blocks a multiprocessor) and "clusters"; -1: as computed.
void kf_fake_set(const char* what, int64_t value);
// How many are alive: "memory", "handle", "reservation", "mapping", "ipc", "library", "graph", "exec", "event", "stream".
int64_t kf_fake_alive(const char* what);
// Wrong calls that a real driver might not have noticed, such as a second free: "" if there were none.
const char* kf_fake_complaints(void);

#ifdef __cplusplus
}
#endif
#endif  // KF_TESTS_FAKE_CUDA_H_
