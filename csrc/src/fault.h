// fault.h: faults of candidates, told in the worker.
#ifndef KF_FAULT_H_
#define KF_FAULT_H_

namespace kf {

// Writes `kf-fault signal=N address=HEX` to fd when a fault signal arrives, then dies of it. Replaces the process's handlers.
void report_faults(int fd);

}  // namespace kf
#endif  // KF_FAULT_H_
