/* Tier 2's namespaces: a process may enter a user namespace only while it has one thread, and Go has several before main. A constructor runs
 * before any. It acts in a process that was started with `--namespaces`, the first time only; that it worked is tried later (worker/sandbox).
 *
 * The user keeps its number, so that files stay its own; a network namespace has no interface that is up. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int put(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t n = write(fd, text, strlen(text));
  const int why = errno;
  close(fd);
  errno = why;
  return n < 0 ? -1 : 0;
}

static void enter(void) {
  char user[64], group[64];
  snprintf(user, sizeof user, "%u %u 1\n", geteuid(), geteuid());
  snprintf(group, sizeof group, "%u %u 1\n", getegid(), getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && (put("/proc/self/setgroups", "deny") == 0 || errno == ENOENT) && put("/proc/self/uid_map", user) == 0 &&
      put("/proc/self/gid_map", group) == 0)
    return;
  fprintf(stderr, "confine: tier 2 needs user and network namespaces, which this kernel or container does not offer: %s\n", strerror(errno));
  _exit(1);
}

__attribute__((constructor)) static void namespaces(int count, char** arguments) {
  if (count < 2 || strcmp(arguments[count - 1], "--confined") == 0) return;
  for (int i = 1; i < count; ++i)
    if (strcmp(arguments[i], "--namespaces") == 0) return enter();
}
