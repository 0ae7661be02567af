// target.h: what a kind of device must be able to do. host.cc is one target, cuda.cc (with cuda_*.cc) the other.
//
//   Target   opens a plan's image, tells the device's facts, makes buffers of its memory, and has a reference kernel
//   Code     an opened image while its plan is made: reads the target's own launch geometry, then binds the spec
//   Program  loaded code of one plan, ready to launch; immutable, used by many threads at once
#ifndef KF_TARGET_H_
#define KF_TARGET_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "buffer.h"
#include "json.h"
#include "spec.h"
#include "timing.h"

namespace kf {

class Program {
 public:
  virtual ~Program() = default;
  // Runs the kernels in order. Allocates nothing, takes no lock. Throws Error(KFR_LAUNCH or KFR_BAD_ARGUMENT) before any kernel ran.
  virtual void launch(void* const* slots, const kfr_parallel* parallel, void* stream) const = 0;
  // Launches once on cleared scratch memory of these sizes, so that nothing is left to load at the first real call. Nothing on the host.
  virtual void warm(const std::vector<uint64_t>& slot_bytes) const = 0;
  // Times itself by the target's ruler (kfr_time_plan).
  virtual void time(const Series& series, const kfr_parallel* parallel, void* stream, double* out_ns) const = 0;
};

class Code {
 public:
  virtual ~Code() = default;
  virtual int32_t threads() const = 0;  // what the plan was judged with; 0 where the target has no thread count
  virtual bool typed_args() const = 0;  // whether int and float arguments of a kernel name their type
  // Takes the geometry fields of one kernel of a spec, evaluated. May load the kernel, and add facts of it (its occupancy) to its names.
  virtual std::vector<int64_t> read_geometry(const std::string& entry, json::Fields& kernel, Names* names) const = 0;
  // Checks the image against the spec's entries, and loads it from memory. Called once.
  virtual std::unique_ptr<Program> bind(Spec spec) = 0;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual const char* name() const = 0;  // the `target` of a pack
  // Takes the fields of a plan that only this target has, and defines the device's names. The image must outlive the Code.
  virtual std::unique_ptr<Code> open(std::string_view image, json::Fields& plan, Names* names) const = 0;
  virtual void describe(kfr_device_info* info) const = 0;  // opens the device
  virtual void wait(void* stream) const = 0;
  virtual std::unique_ptr<kfr_buffer> make_buffer(uint64_t bytes) const = 0;
  virtual std::unique_ptr<kfr_buffer> import_buffer(int fd, uint64_t bytes, bool writable) const = 0;
  virtual void time_reference(const kfr_parallel* parallel, void* stream, uint32_t samples, double* out_ns) const = 0;
  virtual void time_graph(void* graph_exec, void* stream, uint32_t samples, double* out_ns) const = 0;
};

// The target of a device ordinal. Throws Error(KFR_NO_DEVICE).
const Target& target_of(int32_t device);
const Target& host_target();
const Target& cuda_target(
    int32_t ordinal);  // 0 to kDevicesMax - 1; nothing of CUDA is touched before one of its functions needs the device

}  // namespace kf
#endif  // KF_TARGET_H_
