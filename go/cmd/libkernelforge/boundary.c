// boundary.c: the four functions of kernelforge.h. It keeps forked children out of Go: a child has one thread, Go's other threads are gone,
// and a call that needs one of them hangs for ever.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "kernelforge.h"

static atomic_int in_forked_child;

static void enter_child(void) { atomic_store(&in_forked_child, 1); }

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, enter_child); }

static int32_t refuse_fork(char** out, int64_t* out_n) {
  static const char kText[] =
      "{\"error\": {\"code\": \"fork\", \"text\": \"call kernelforge in a forked child: its core runs in the parent only\", "
      "\"hint\": \"start the child with spawn or forkserver, or call kernelforge before it forks\"}}";
  *out_n = sizeof kText - 1;
  *out = malloc(sizeof kText);
  if (*out == NULL) return KF_NO_MEMORY;
  memcpy(*out, kText, sizeof kText);
  return KF_FORKED;
}

uint32_t kf_abi_version(void) { return KF_ABI_VERSION; }

int32_t kf_init(const char* json, int64_t json_n, char** out, int64_t* out_n) {
  if (atomic_load(&in_forked_child)) return refuse_fork(out, out_n);
  return goInit((char*)json, json_n, out, out_n);
}

int32_t kf_call(const char* op, int64_t op_n, const char* in, int64_t in_n, char** out, int64_t* out_n) {
  if (atomic_load(&in_forked_child)) return refuse_fork(out, out_n);
  return goCall((char*)op, op_n, (char*)in, in_n, out, out_n);
}

void kf_free(char* answer) { free(answer); }
