// fault_test.cc: a fault is told on the descriptor, and the process still dies of its signal.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "support.h"

namespace kf {
namespace {

// What a forked process that installed the report writes before it dies of `fault`, and how it died.
std::string report_of(void (*fault)(), int* signal) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    if (kfr_fault_report(ends[1], nullptr) == KFR_OK) fault();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[256];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  *signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return text;
}

TEST(Fault, OfSeveralThreadsThatFaultAtOnceOneIsTold) {
  for (int turn = 0; turn < 200; ++turn) {
    int signal = 0;
    std::string text = report_of(
        [] {
          static std::atomic<int> ready{0};
          auto fault = [] {
            ++ready;
            while (ready < 2) {}
            *reinterpret_cast<volatile int*>(0xabc0) = 1;
          };
          std::thread other(fault);
          fault();
        },
        &signal);
    ASSERT_EQ(text, "kf-fault signal=11 address=abc0\n") << "turn " << turn;
    ASSERT_EQ(signal, SIGSEGV);
  }
}

TEST(Fault, AWildWriteIsToldWithItsAddress) {
  int signal = 0;
  std::string text = report_of([] { *reinterpret_cast<volatile int*>(0xabc0) = 1; }, &signal);
  EXPECT_EQ(text, "kf-fault signal=11 address=abc0\n");
  EXPECT_EQ(signal, SIGSEGV);
}

TEST(Fault, AnAbortIsTold) {
  int signal = 0;
  std::string text = report_of([] { abort(); }, &signal);
  EXPECT_EQ(text.find("kf-fault signal=6 "), 0u) << text;
  EXPECT_EQ(signal, SIGABRT);
}

TEST(Fault, AProcessWithoutFaultSaysNothing) {
  int signal = 0;
  EXPECT_EQ(report_of([] {}, &signal), "");
  EXPECT_EQ(signal, 0);
}

}  // namespace
}  // namespace kf
