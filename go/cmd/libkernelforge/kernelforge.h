/* kernelforge.h: the C boundary of the kernelforge core (boundary 1).
 *
 *   Python (ctypes, or the extension)  ──>  this header  ──>  Go: studies, search, judge, store
 *
 * One function does the work: an operation's name and a JSON request in, a JSON answer out (docs/formats.md, `the core library`).
 *
 * Rules that hold for every function
 *   errors     in the same call: rc > 0 and {"error": {"code", "text", "hint"}} as the answer. No last-error slot.
 *   memory     requests are borrowed for the call; an answer is freed with kf_free by the caller. No Go pointer is ever given out.
 *   lengths    explicit, in bytes; answers are not terminated.
 *   time       nothing blocks over 200 ms: long work is started, then polled.
 *   threads    any. Release the GIL around kf_init and kf_call.
 *   fork       a child forked after loading must not call: kf_init and kf_call answer KF_FORKED there, without entering Go. Start a fresh
 *              process instead (spawn, forkserver, subprocess). Children that never call are fine.
 *   signals    loading installs Go's handlers for SIGSEGV, SIGBUS, SIGFPE and SIGURG; SIGPIPE is ignored, as Python does.
 *   output     never prints. No environment variable is read: configuration comes in through kf_init.
 *   unloading  never: dlclose has no effect. Open once with RTLD_NOW | RTLD_LOCAL, at the first use, and compare kf_abi_version first.
 */
#ifndef KERNELFORGE_H_
#define KERNELFORGE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KF_ABI_VERSION 1u

enum {
  KF_OK = 0,
  KF_FAILED = 1,   /* the answer is an error that says what was tried, what was found, and what to do */
  KF_PANICKED = 2, /* a bug in the core was caught; the answer's text holds the stack. The process can go on */
  KF_FORKED = 3,   /* called in a forked child */
  KF_NO_MEMORY = 4 /* no answer could be allocated; *out is NULL */
};

/* Returns KF_ABI_VERSION of the library that was loaded; compare before any other call. Works in a forked child too. */
uint32_t kf_abi_version(void);

/* Sets limits of the core. Optional; may be called again. JSON: {"max_procs": 2, "memory_limit_bytes": 536870912}, each field optional (Go does not
 * see variables that Python sets, so GOMAXPROCS and GOMEMLIMIT have no effect here).
 *
 * json, json_n   borrowed; json_n 0 means {}.
 * out, out_n     the answer, owned by the caller; free with kf_free. */
int32_t kf_init(const char* json, int64_t json_n, char** out, int64_t* out_n);

/* Carries out one operation. An answer is always JSON: {"result": ...} with KF_OK, {"error": ...} with any other code.
 *
 * op, op_n       name, such as "study.poll"; borrowed.
 * in, in_n       request; borrowed; in_n 0 means {}.
 * out, out_n     the answer, owned by the caller; free with kf_free. */
int32_t kf_call(const char* op, int64_t op_n, const char* in, int64_t in_n, char** out, int64_t* out_n);

/* Frees an answer. NULL allowed. */
void kf_free(char* answer);

#ifdef __cplusplus
}
#endif
#endif /* KERNELFORGE_H_ */
