// smoke.c: the promises of kernelforge.h, seen from C. Run by boundary_test.go with the path of the library; says "ok" or what broke.
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kernelforge.h"

static uint32_t (*abi_version)(void);
static int32_t (*init)(const char*, int64_t, char**, int64_t*);
static int32_t (*call)(const char*, int64_t, const char*, int64_t, char**, int64_t*);
static void (*release)(char*);

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition);         \
      _exit(1);                                                       \
    }                                                                 \
  } while (0)

// One call whose answer must hold `want`. The request is in memory of exactly its size, so that reading past it is seen by a sanitizer.
static int32_t answer_holds(const char* op, const char* request, const char* want) {
  char* out = NULL;
  int64_t n = -1;
  size_t size = strlen(request);
  char* exact = malloc(size ? size : 1);
  memcpy(exact, request, size);
  int32_t rc = call(op, (int64_t)strlen(op), exact, (int64_t)size, &out, &n);
  free(exact);
  CHECK(out != NULL && n > 0);
  char* text = malloc((size_t)n + 1);
  memcpy(text, out, (size_t)n);
  text[n] = 0;
  if (strstr(text, want) == NULL) {
    fprintf(stderr, "%s: %s (expected %s)\n", op, text, want);
    _exit(1);
  }
  free(text);
  release(out);
  return rc;
}

static void* many(void* unused) {
  for (int i = 0; i < 200; ++i) {
    CHECK(answer_holds("version", "{}", "\"abi\":1") == KF_OK);
    CHECK(answer_holds("study.poll", "{\"study\": \"none\", \"timeout_ms\": 0}", "not_found") == KF_FAILED);
  }
  return unused;
}

static size_t open_files(void) {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != NULL) ++count;
  closedir(folder);
  return count;
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  *(void**)&abi_version = dlsym(library, "kf_abi_version");
  *(void**)&init = dlsym(library, "kf_init");
  *(void**)&call = dlsym(library, "kf_call");
  *(void**)&release = dlsym(library, "kf_free");
  CHECK(abi_version && init && call && release);
  CHECK(abi_version() == KF_ABI_VERSION);

  char* out = NULL;
  int64_t n = 0;
  const char limits[] = "{\"max_procs\": 2, \"memory_limit_bytes\": 536870912}";
  CHECK(init(limits, sizeof limits - 1, &out, &n) == KF_OK);
  release(out);
  CHECK(init(NULL, 0, &out, &n) == KF_OK);
  release(out);
  CHECK(init("{\"max_procs\": -1}", 17, &out, &n) == KF_FAILED);
  release(out);
  release(NULL);

  CHECK(answer_holds("version", "", "\"version\":") == KF_OK);
  CHECK(answer_holds("no.such", "{}", "not_found") == KF_FAILED);
  CHECK(answer_holds("study.poll", "{\"study\": 1", "bad_request") == KF_FAILED);
  CHECK(answer_holds("study.poll", "{\"study\": \"a\", \"timeout_ms\": 1, \"more\": 1}", "`more`: unknown field") == KF_FAILED);
  CHECK(answer_holds("", "", "no such operation") == KF_FAILED);

  // A write to a closed pipe is an error, not the end of the process.
  int ends[2];
  CHECK(pipe(ends) == 0);
  close(ends[0]);
  errno = 0;
  CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE);
  close(ends[1]);

  // A store, so that SQLite has run before leaks are counted and before the fork.
  char request[4096];
  snprintf(request, sizeof request, "{\"store\": \"%s\"}", argv[2]);
  CHECK(answer_holds("store.studies", request, "not_found") == KF_FAILED);

  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, many, NULL) == 0);
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);

  size_t files = open_files();
  struct mallinfo2 before = mallinfo2();
  many(NULL);
  for (int i = 0; i < 20; ++i) answer_holds("store.studies", request, "not_found");
  struct mallinfo2 after = mallinfo2();
  CHECK(after.uordblks <= before.uordblks + 4096);
  CHECK(open_files() < files + 10);  // 20 calls that leaked one each would be 20; the Go runtime opens and closes files of its own meanwhile

  // A forked child is refused without entering Go, also while other threads of the parent are inside it.
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, many, NULL) == 0);
  for (int i = 0; i < 20; ++i) {
    pid_t child = fork();
    if (child == 0) {
      CHECK(abi_version() == KF_ABI_VERSION);
      CHECK(answer_holds("version", "{}", "\"fork\"") == KF_FORKED);
      CHECK(init(NULL, 0, &out, &n) == KF_FORKED);
      release(out);
      _exit(0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(answer_holds("version", "{}", "\"abi\":1") == KF_OK);
  puts("ok");
  return 0;
}
