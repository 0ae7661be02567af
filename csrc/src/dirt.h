// dirt.h: what a kernel finds in memory and registers that are not its own. Zeros there would let one pass that counts on them.
#ifndef KF_DIRT_H_
#define KF_DIRT_H_

#include <cstdint>

namespace kf {

// Fills the stack below the caller's frame and every vector register with a byte; what runs next in this thread finds it there.
void leave_dirt(uint8_t byte);

}  // namespace kf
#endif  // KF_DIRT_H_
