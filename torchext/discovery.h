// Which operators a program runs and how long they take, hooked or not: RecordFunction on every thread. For profiling only.
#ifndef KFT_DISCOVERY_H_
#define KFT_DISCOVERY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kft {

struct Discovered {
  std::string name;  // "aten::mean.dim"
  uint64_t calls = 0;
  int64_t total_ns = 0;  // with the operators inside it
  int64_t self_ns = 0;   // without them
};

void discovery_begin();
std::vector<Discovered> discovery_end();  // largest self_ns first
// Around a fork: no other thread's event ends meanwhile.
void hold_discovery();
void release_discovery();

}  // namespace kft
#endif  // KFT_DISCOVERY_H_
