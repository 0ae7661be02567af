// fake_cuda_state.h: the books of the fake driver, shared by its two source files.
#ifndef KF_TESTS_FAKE_CUDA_STATE_H_
#define KF_TESTS_FAKE_CUDA_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_driver.h"
#include "fake_cuda.h"

#define KF_FAKE extern "C" __attribute__((visibility("default")))

namespace fake {

struct Node {
  std::string text;
  int64_t ns;
  std::function<void()> work;
};

}  // namespace fake

namespace kf::cuda {  // the handles that the driver gives out

struct StreamTag {
  int number = 0;
  bool capturing = false;
  std::vector<fake::Node> nodes;
};
struct EventTag {
  int64_t at_ns = -1;
};
struct GraphTag {
  std::vector<fake::Node> nodes;
};
struct GraphExecTag {
  int number = 0;
  std::vector<fake::Node> nodes;
};

}  // namespace kf::cuda

namespace fake {

using namespace kf::cuda;

enum : Result {
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinary = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kTooLarge = 720,
  kCaptureUnsupported = 900,
  kInvalidCluster = 912,
};

constexpr size_t kPage = size_t{2} << 20;

struct Injected {
  Result result;
  int32_t skip, times;
};

struct State {
  std::recursive_mutex mutex;
  std::string log, shown, complaints;
  std::map<std::string, Injected> injected;
  std::map<std::string, int64_t> can{{"devices", 1},       {"driver", 13000}, {"major", 9},
                                     {"vmm", 1},           {"read_only", 1},  {"memory", int64_t{1} << 40},
                                     {"kernel_ns", 10000}, {"occupancy", -1}, {"clusters", -1}};
  std::map<std::string, int64_t> alive;
  Result fault = 0, next_fault = 0;
  bool started = false, capture_elsewhere = false;
  int64_t clock_ns = 0, allocated = 0;

  void note(const std::string& line) { log += line + "\n"; }
  void complain(const std::string& line) { complaints += line + "\n"; }
};
State& state();

// What a call needs before it does anything.
enum Need : unsigned {
  kNothing = 0,
  kStarted = 1,
  kContext = 2,  // a current context that is not lost
  kUnsafe = 4,   // what a capture in global mode forbids
};
// Locks, logs (with `text` behind the name), and gives the result of an injected or a standing error, 0 if the call may go on.
class Call {
 public:
  Call(const char* symbol, unsigned needs, const std::string& text = {});
  Result refused;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

// Does work on a stream: now, or into the graph that the stream captures.
Result submit(Stream stream, Node node);
void run(const Node& node);  // moves the clock
Context current();

}  // namespace fake

#endif  // KF_TESTS_FAKE_CUDA_STATE_H_
