/* kf_runtime.h: the C boundary of the kernelforge runtime (boundary 2).
 *
 *   worker (Go, through purego)  ──┐
 *                                  ├──>  this header  ──>  spec, guard, plan table, code loading, launch, timing
 *   torchext (C++, linked)       ──┘
 *
 * What was judged is what is served: both sides load, launch and time a kernel through the functions below.
 *
 * Rules that hold for every function
 *   errors     returned as kfr_status; text goes to a caller-owned kfr_error, filled on failure, untouched on success; NULL is allowed.
 *   exceptions none crosses this boundary.
 *   strings    UTF-8, lengths explicit unless the parameter says `nul` (terminated).
 *   ownership  `borrowed` for the call unless a comment says otherwise; handles are freed by the function named beside their type.
 *   threads    `any` unless a comment says otherwise.
 *   torch      never included, never linked. The CUDA driver is opened at first use, never at load.
 */
#ifndef KF_RUNTIME_H_
#define KF_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KFR_ABI_VERSION 1u
#define KFR_HOST (-1) /* device ordinal of the host target; CUDA devices are 0, 1, ... */

typedef enum kfr_status {
  KFR_OK = 0,
  KFR_BAD_ARGUMENT = 1, /* a NULL, a length, a name or an index that cannot be */
  KFR_BAD_SPEC = 2,     /* launch spec or call does not follow its schema, or an expression fails */
  KFR_BAD_CODE = 3,     /* the image breaks the symbol or section rules, or lacks the entry point */
  KFR_BAD_PACK = 4,     /* pack.json does not follow its schema, or a hash differs */
  KFR_BAD_PIN = 5,      /* the pack was judged on another machine, torch, toolchain or thread count */
  KFR_BUSY = 6,         /* another publisher is at work */
  KFR_NO_DEVICE = 7,    /* no such device, or the target is not built */
  KFR_LAUNCH = 8,       /* the launch was refused before any kernel ran */
  KFR_SYSTEM = 9,       /* the operating system refused (memory, file, mapping) */
  KFR_DRIVER = 10,      /* the CUDA driver refused */
  KFR_FAULT = 11        /* a kernel faulted on the device: this process's CUDA context is lost, and only a new process gets another */
} kfr_status;

/* text: what was tried, on which thing: what was found (expected what). hint: what the reader can do, or "". Both nul. */
typedef struct kfr_error {
  int32_t code;
  char text[768];
  char hint[256];
} kfr_error;

/* Returns KFR_ABI_VERSION of the library that was loaded; compare before any other call. */
uint32_t kfr_abi_version(void);

/* ---- devices --------------------------------------------------------------------------------------------- */

/* What a CUDA device is. Strings are nul terminated. */
typedef struct kfr_device_info {
  char name[128];       /* as the driver says it: "NVIDIA H200" */
  int32_t major, minor; /* compute capability */
  int32_t sm_count;
  int32_t driver; /* the CUDA version that the driver speaks, 1000 x major + 10 x minor: 13000 */
  int32_t warp;   /* threads */
  int64_t l2_bytes;
  int64_t smem_optin; /* most dynamic shared memory a block can have, bytes */
  int64_t memory_bytes;
  uint8_t vmm;       /* buffers are virtual memory with unmapped ranges on both sides; 0: legacy IPC, without them */
  uint8_t read_only; /* an import that is not writable cannot be written by a kernel */
  uint8_t uuid[16];
  char pci[32]; /* "0000:19:00.0" */
} kfr_device_info;

/* Opens the CUDA driver at its first use (libcuda.so.1, or the file that KERNELFORGE_LIBCUDA names), and retains the primary context of a
 * device, the one that torch uses, for the life of the process; it becomes current in the calling thread if that has none. Repeating is cheap.
 * device  a CUDA ordinal as this process counts them (CUDA_VISIBLE_DEVICES).
 * info    filled on success; NULL allowed.
 * Returns KFR_OK, KFR_BAD_ARGUMENT (a negative ordinal), KFR_NO_DEVICE (no driver, no such device, driver too old, device taken by another
 * process in exclusive mode, an MPS server that cannot be reached; the hint says which), KFR_SYSTEM (no memory for a context), KFR_DRIVER,
 * KFR_FAULT. */
kfr_status kfr_device_open(int32_t device, kfr_device_info* info, kfr_error* error);

/* ---- words: element types and overloads ---------------------------------------------------------------- */

/* Element types by torch's names: "float32", "bfloat16", ... The numbers are part of the guard encoding; append only. */
typedef enum kfr_dtype { KFR_BOOL = 1, KFR_U8, KFR_I8, KFR_I16, KFR_I32, KFR_I64, KFR_F16, KFR_BF16, KFR_F32, KFR_F64 } kfr_dtype;

/* Returns the type with this nul name, 0 if there is none. */
int32_t kfr_dtype_from_name(const char* name);
/* Returns the size of one element in bytes, 0 for an unknown type. */
size_t kfr_dtype_size(int32_t dtype);

/* Returns the dense id of an overload such as "aten::relu_" (nul), the same for the life of the process; ids start at 0.
 * Takes a lock: call it when a hook is registered, not on a call. -1 when KFR_MAX_OPS are in use, or the text is no overload name. */
#define KFR_MAX_OPS 512
int32_t kfr_op_id(const char* overload);

/* ---- expressions ----------------------------------------------------------------------------------------- */

/* Evaluates an expression of a launch spec: integers, names, + - * / % ( ) and ceildiv(a,b) min(a,b) max(a,b), in 64-bit integers.
 * Every overflow, division by zero, unknown name or trailing character is KFR_BAD_SPEC. `/` and `%` truncate, as in C; ceildiv rounds up.
 * names/values: `count` borrowed pairs. A name given twice with different values cannot be used. */
kfr_status kfr_expr_eval(const char* text, size_t text_n, const char* const* names, const int64_t* values, size_t count, int64_t* result,
                         kfr_error* error);

/* ---- plans ----------------------------------------------------------------------------------------------- */

/* A plan is one candidate bound to one variant: guard + evaluated launch spec + loaded code. Immutable once made. */
typedef struct kfr_plan kfr_plan;

/* Makes a plan from its JSON (docs/formats.md, `plan`) and its code image (an ELF shared object for host, a cubin for CUDA).
 *
 * Expressions are evaluated here, once, with the call's sizes and the device's facts; `threads` is the plan's own field.
 * The image is checked (kfr_code_check) on a sealed copy and loaded from that copy, from memory; loading runs no code of the image.
 * device  KFR_HOST or a CUDA ordinal, which is opened here if it is not yet (kfr_device_open).
 * plan    owned by the caller until published; free with kfr_plan_free. A published plan is never freed (a reader may hold it).
 * Returns KFR_OK, KFR_BAD_ARGUMENT (also: overload ids are used up), KFR_BAD_SPEC, KFR_BAD_CODE, KFR_NO_DEVICE, KFR_SYSTEM, KFR_DRIVER, KFR_FAULT,
 * KFR_LAUNCH (CUDA: a geometry that this device cannot run: registers, shared memory, clusters, a cooperative grid that does not fit). */
kfr_status kfr_plan_create(const char* json, size_t json_n, const void* image, size_t image_n, int32_t device, kfr_plan** plan,
                           kfr_error* error);
void kfr_plan_free(kfr_plan* plan); /* NULL allowed; refused silently for a published plan */

/* Tensors of a call are numbered as `slots`: the defined tensors of the arguments in schema order (list elements in their place;
 * wrapped 0-dim CPU scalars are not slots), then the outputs, then the workspaces. */
typedef struct kfr_plan_info {
  const char* id; /* nul, lives as long as the plan */
  int32_t op;     /* kfr_op_id of the overload */
  int32_t device;
  uint32_t inputs, outputs, workspaces;
  const uint32_t* align; /* per input and output slot: required alignment in bytes of its address (a power of two) */
  const uint64_t* workspace_bytes;
  const uint8_t* workspace_zeroed;
  uint8_t deterministic; /* may run under torch.use_deterministic_algorithms */
  uint8_t exact;         /* bitwise equal to eager on everything judged */
  int32_t threads;       /* host: the thread count it was judged with, and the only one that kfr_launch takes; CUDA: 0 */
} kfr_plan_info;
kfr_status kfr_plan_info_get(const kfr_plan* plan, kfr_plan_info* info);

/* One output as eager makes it. alias: the input slot that it is (in-place and out forms), or -1: allocate it. */
typedef struct kfr_output {
  int32_t dtype, dim, alias;
  const int64_t* sizes;
  const int64_t* strides;
} kfr_output;
kfr_status kfr_plan_output(const kfr_plan* plan, uint32_t index, kfr_output* output);

/* ---- the plan table -------------------------------------------------------------------------------------- */

/* Replaces the whole table of one device in one step; calls already running finish with the old one. count 0 empties it.
 * plans  borrowed array; the plans themselves pass to the runtime on success, for the life of the process, and may be published again.
 *        Two plans with one guard, or a plan of another device: KFR_BAD_ARGUMENT, and the old table stays.
 * Every plan has been loaded by kfr_plan_create and is launched once here on scratch memory (host: no; CUDA: yes, so that a
 * capture never meets a load). Thread: any; one publisher at a time (KFR_BUSY). */
kfr_status kfr_publish(kfr_plan* const* plans, size_t count, int32_t device, kfr_error* error);

/* Returns the plan whose guard is exactly this call, or NULL. `words` come from kf::CallWords (kf_call.h).
 * Lock-free, allocation-free, 10 to 20 ns (csrc/tests/lookup_bench.cc). The caller still checks slot alignment and the determinism flag. */
const kfr_plan* kfr_lookup(int32_t op, int32_t device, const int64_t* words, uint32_t count);

/* Returns 1 if any plan is published for the overload on this device: the check that keeps idle hooks cheap. */
int32_t kfr_has_plans(int32_t op, int32_t device);

/* The counter of a plan, relaxed. `kfr_plan_hit` adds one served call; `kfr_plan_hits` reads it, and sets it to 0 if `reset`. */
void kfr_plan_hit(const kfr_plan* plan);
uint64_t kfr_plan_hits(const kfr_plan* plan, int32_t reset);

/* The same for calls that matched the plan's guard and ran on eager all the same: `reason` is a number of the caller's, below KFR_MAX_REASONS;
 * others count nothing. */
#define KFR_MAX_REASONS 32
void kfr_plan_fallback(const kfr_plan* plan, uint32_t reason);
uint64_t kfr_plan_fallbacks(const kfr_plan* plan, uint32_t reason, int32_t reset);

/* ---- launch ---------------------------------------------------------------------------------------------- */

/* How host kernels reach threads. The extension passes at::parallel_for, the worker a kfr_pool; a kernel sees [begin, end). */
typedef struct kfr_parallel {
  void (*run)(void* ctx, int64_t begin, int64_t end, int64_t grain, void (*body)(void* body_ctx, int64_t begin, int64_t end),
              void* body_ctx);
  void* ctx;
  int32_t threads;
} kfr_parallel;

/* Runs the plan's kernels in order. slots: inputs, outputs, workspaces (kfr_plan_info). Workspaces marked zeroed are cleared here.
 * An output that is an input (alias) is written through the input's slot; its own slot is not read. A slot that a kernel uses is not NULL.
 * parallel  host target only; its thread count must be the plan's (KFR_LAUNCH otherwise: the plan was judged with that count).
 * stream    CUstream for CUDA (NULL: the legacy default stream), where this returns when the work is queued, under stream capture too; ignored for
 *           host, which returns when the work is done.
 * Launching allocates nothing and takes no lock. On any status but KFR_OK no kernel ran; on KFR_DRIVER (CUDA) the first ones of several may be
 * queued, and what they write holds part of a result.
 * CUDA: a thread without a current context gets the device's primary context. A fault of a kernel is told by a later call, as KFR_FAULT.
 * An image's crash is the process's crash: only judged code runs outside the worker. */
kfr_status kfr_launch(const kfr_plan* plan, void* const* slots, uint32_t count, const kfr_parallel* parallel, void* stream,
                      kfr_error* error);

/* Waits until all work queued on a stream is done; KFR_HOST: there is nothing to wait for. Under a hanging kernel this never returns: the parent
 * process kills. KFR_FAULT: a kernel made an illegal access or the like, and the context of this process is lost. */
kfr_status kfr_stream_wait(int32_t device, void* stream, kfr_error* error);

/* A fixed pool of threads for the worker and the tests; `threads` counts the caller, who works too. Ranges are cut as at::parallel_for cuts
 * them: min(threads, ceildiv(n, grain)) equal parts. Threads sleep between calls (they never spin while the other side is timed).
 * One call at a time: a second caller waits. Not from inside a body. */
typedef struct kfr_pool kfr_pool;
kfr_status kfr_pool_create(int32_t threads, kfr_pool** pool, kfr_error* error);
void kfr_pool_parallel(kfr_pool* pool, kfr_parallel* parallel); /* valid until the pool is freed */
void kfr_pool_free(kfr_pool* pool);
/* Later calls of the pool find this byte in the free stack and the vector registers of each thread, as far as it can be reached: a kernel that counts
 * on zeros, or on what its last run left, then gives another result. -1: whatever is there, as at first. The thread that calls the pool. */
void kfr_pool_dirty(kfr_pool* pool, int32_t byte);

/* ---- code ------------------------------------------------------------------------------------------------ */

/* Checks a host image before it is loaded: ELF64 x86-64 shared object; undefined symbols within the allow-list (libm, memcpy family, and what
 * the compiler itself emits); no DT_NEEDED outside libm/libc/libgcc_s/libstdc++; no static constructors or destructors, no
 * IFUNC, no writable+executable segment, no executable stack, no TLS; all `entries` (nul) defined as functions and nothing else exported.
 * Nothing is writable after relocation (link with -z relro -z now), so a kernel keeps no state between calls; and every table and relocation
 * that the loader would follow lies where it must, so that loading a hostile image cannot write outside it. KFR_BAD_CODE says which rule.
 * A cubin is checked when its plan is made: an ELF64 for CUDA whose tables lie inside it, that has every entry and no kernel besides, none of which
 * needs more than 16 KiB of local memory a thread. */
kfr_status kfr_code_check(const void* image, size_t image_n, const char* const* entries, size_t count, kfr_error* error);

/* For tests of the judge, in a worker process alone: from now on kfr_plan_create leaves out these rules, so that a test sees what only they
 * keep out. It cannot be taken back. */
void kfr_images_unchecked(void);

/* ---- shared buffers with guard pages ---------------------------------------------------------------------- */

/* Memory shared between referee and worker: whole pages with an unmapped range on both sides, so that an access past either end faults in
 * hardware. Created in the trusted process, zeroed; imported by file descriptor in the worker. Never part of torch's caching allocator.
 *   host  4 KiB pages between 1 MiB ranges; the memory file is sealed so that nobody can resize it.
 *   CUDA  2 MiB pages between 2 MiB ranges (cuMemCreate, exported as a file descriptor); `data` is a device address. Where the driver cannot
 *         export them (no `vmm` in kfr_device_info), or KERNELFORGE_BUFFERS is `ipc`, the descriptor is a small sealed memory file with a legacy
 *         IPC handle: then nothing around it is unmapped, an import can be written, and no import may outlive its maker. Where there is no IPC
 *         either, or the variable is `copy`, each side has device memory of its own and the descriptor is a memory file of that size, through which
 *         kfr_buffer_push and kfr_buffer_pull carry its bytes. */
typedef struct kfr_buffer kfr_buffer;
/* device: KFR_HOST or a CUDA ordinal, opened if need be. Read-write. KFR_SYSTEM: no memory. */
kfr_status kfr_buffer_create(uint64_t bytes, int32_t device, kfr_buffer** buffer, kfr_error* error);
/* fd borrowed; bytes as created, or kfr_buffer_bytes of it. KFR_BAD_ARGUMENT: no such memory behind the descriptor. */
kfr_status kfr_buffer_import(int32_t fd, uint64_t bytes, int32_t writable, int32_t device, kfr_buffer** buffer, kfr_error* error);
/* Sets `bytes` bytes from `offset` to a value and returns when it is done, whatever the device. KFR_BAD_ARGUMENT outside the buffer or read-only. */
kfr_status kfr_buffer_fill(const kfr_buffer* buffer, uint64_t offset, uint64_t bytes, uint8_t value, kfr_error* error);
/* Where each side has memory of its own (`copy`): push gives the other side all bytes that are here now, pull takes what the other side pushed; a new
 * import has pulled. All work of the device is waited for first. Nothing to do, and nothing waited for, where the memory is one. */
kfr_status kfr_buffer_push(const kfr_buffer* buffer, kfr_error* error);
kfr_status kfr_buffer_pull(const kfr_buffer* buffer, kfr_error* error);
void* kfr_buffer_data(const kfr_buffer* buffer);     /* first byte of the mapping */
uint64_t kfr_buffer_bytes(const kfr_buffer* buffer); /* rounded up to whole pages */
int32_t kfr_buffer_fd(const kfr_buffer* buffer);     /* owned by the buffer; -1 for an imported one */
void kfr_buffer_free(kfr_buffer* buffer);            /* unmaps; pointers into it die; CUDA: nothing may still run on it */

/* ---- timing ---------------------------------------------------------------------------------------------- */

/* Times a plan over a rotating pool of slot sets. One sample = `inner` launches in a row, sets used round robin, divided by inner.
 *
 * sets     nsets x nslots addresses. An input is not NULL; an output or workspace may be.
 *            host  what is NULL is allocated (64-byte aligned) before and freed after every launch inside the timed region, as torch does for eager.
 *            CUDA  what is NULL is allocated once and shared by all sets, as a caching allocator hands out one block again and again.
 * out_ns   `samples` values, nanoseconds a launch, in the order measured; monotonic clock on host, events on CUDA.
 * stream   CUDA: the launches are captured once into a graph and every sample replays it between two events, on this stream (NULL: one of the
 *          runtime's own), so that no host time is measured. All work of the device is waited for first. Each sample goes on with the next
 *          sets; graphs and memory are kept for the next call with the same sets and `inner`, until the plan is freed.
 * One untimed launch of every set goes first when `warm` is 1. Returns when all is done; KFR_FAULT as in kfr_stream_wait. */
kfr_status kfr_time_plan(const kfr_plan* plan, void* const* sets, uint32_t nsets, uint32_t nslots, uint32_t samples, uint32_t inner,
                         int32_t warm, const kfr_parallel* parallel, void* stream, double* out_ns, kfr_error* error);

/* Times the reference kernel: a fixed piece of work that both processes run in every block, so that a block in which one process was disturbed can
 * be told by its ratio. Nanoseconds. The first run is not counted.
 *   host  a triad over 4 MiB a thread; `parallel` is needed, `stream` ignored.
 *   CUDA  four copies of 32 MiB within the device, replayed as one graph between events on `stream` (NULL: one of the runtime's own). */
kfr_status kfr_time_reference(int32_t device, const kfr_parallel* parallel, void* stream, uint32_t samples, double* out_ns,
                              kfr_error* error);

/* Times replays of a graph that somebody else made, such as torch.cuda.CUDAGraph.raw_cuda_graph_exec(): the ruler of kfr_time_plan for eager and for
 * the dispatch path. graph_exec is a CUgraphExec of the device, borrowed. The first replay is not counted. Nanoseconds a replay.
 * KFR_NO_DEVICE on KFR_HOST. */
kfr_status kfr_graph_time(int32_t device, void* graph_exec, void* stream, uint32_t samples, double* out_ns, kfr_error* error);

/* Monotonic clock, nanoseconds: the ruler of both sides. */
int64_t kfr_now_ns(void);

/* ---- faults ---------------------------------------------------------------------------------------------- */

/* For the worker only: when a candidate faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP), one line `kf-fault signal=N address=HEX`
 * is written to fd, then the process dies of the signal. Replaces the process's own handlers of these signals. fd stays the caller's. */
kfr_status kfr_fault_report(int32_t fd, kfr_error* error);

/* ---- packs ----------------------------------------------------------------------------------------------- */

/* Opens a pack folder: reads pack.json strictly, compares pins, checks every hash, makes every plan. Nothing is published.
 *
 * pins   JSON object of what this process is: {"torch": "2.15.0", "device": "...", "threads": 2, ...} (docs/formats.md, `pins`). Every pin in the
 *        pack must be equal here, else KFR_BAD_PIN naming the first that differs. NULL: pins are not compared (verify).
 *        Plans in the state `proposed` are read and their files checked, but no plan is made of them.
 *        Files are opened below the folder by their hash; links, pipes and whatever else is no regular file are refused.
 * plans  the pack keeps the array; plans published pass to the runtime. Free with kfr_pack_free. */
typedef struct kfr_pack kfr_pack;
kfr_status kfr_pack_open(const char* folder, const char* pins, size_t pins_n, int32_t device, kfr_pack** pack, kfr_error* error);
kfr_plan* const* kfr_pack_plans(const kfr_pack* pack, size_t* count);
void kfr_pack_free(kfr_pack* pack); /* frees the plans that were not published */

#ifdef __cplusplus
}
#endif
#endif /* KF_RUNTIME_H_ */
