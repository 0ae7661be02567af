// fault.cc: tells a candidate's fault on a file descriptor, before the process dies of it.
//
// It owns the handlers of the fault signals in the worker. It refuses to survive: every handler ends in the signal's default action, so the
// exit status names the signal as well. Only async-signal-safe calls are made.
#include "fault.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "error.h"

namespace kf {
namespace {

volatile sig_atomic_t report_fd = -1;

char* put(char* to, const char* text) {
  while (*text != '\0') *to++ = *text++;
  return to;
}

char* put(char* to, uint64_t value, unsigned base) {
  char digits[20];
  int n = 0;
  do digits[n++] = "0123456789abcdef"[value % base];
  while (value /= base);
  while (n > 0) *to++ = digits[--n];
  return to;
}

void tell(int number, siginfo_t* info, void*) {
  // Several threads may fault at once: the first one tells, and all die of its signal. Were the default action back before it has told, another
  // thread's fault would end the process without a word.
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  while (told.test_and_set()) pause();
  char line[96];
  char* end = put(line, "kf-fault signal=");
  end = put(end, static_cast<uint64_t>(number), 10);
  end = put(end, " address=");
  end = put(end, reinterpret_cast<uintptr_t>(info->si_addr), 16);
  *end++ = '\n';
  ssize_t written = write(report_fd, line, static_cast<size_t>(end - line));
  static_cast<void>(written);  // nothing can be done about a lost line
  signal(number, SIG_DFL);
  raise(number);  // blocked until this returns
}

}  // namespace

void report_faults(int fd) {
  report_fd = fd;
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_sigaction = tell;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK);
  sigfillset(&action.sa_mask);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
    if (sigaction(number, &action, nullptr) != 0) {
      throw Error(KFR_SYSTEM, "report faults: handle signal " + std::to_string(number) + ": " + errno_text(errno));
    }
  }
}

}  // namespace kf
