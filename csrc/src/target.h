// target.h: what a kind of device must be able to do. host.cc is one target; the CUDA target is another file beside it.
//
//   Target   reads its own launch geometry, tells its facts, loads code
//   Program  loaded code of one plan, ready to launch; immutable, used by many threads at once
#ifndef KF_TARGET_H_
#define KF_TARGET_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "json.h"
#include "spec.h"

namespace kf {

class Program {
 public:
  virtual ~Program() = default;
  // Runs the kernels in order. Allocates nothing, takes no lock. Throws Error(KFR_LAUNCH or KFR_BAD_ARGUMENT) before any kernel ran.
  virtual void launch(void* const* slots, const kfr_parallel* parallel, void* stream) const = 0;
  // Launches once on scratch memory, so that nothing is left to load at the first real call. Nothing on the host.
  virtual void warm() const = 0;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual const char* name() const = 0;  // the `target` of a pack
  // Defines the device's names for expressions; takes the plan's fields that only this target has. Returns the thread count, 0 if there is none.
  virtual int32_t facts(json::Fields& plan, Names* names) const = 0;
  // Takes the geometry fields of one kernel of a spec, evaluated.
  virtual std::vector<int64_t> read_geometry(json::Fields& kernel, const Names& names) const = 0;
  virtual bool typed_args() const = 0;
  // Checks and loads an image, from memory, for the kernels of a spec. `threads` as facts() returned it.
  virtual std::unique_ptr<Program> load(Spec spec, int32_t threads, std::string_view image) const = 0;
};

// The target of a device ordinal. Throws Error(KFR_NO_DEVICE).
const Target& target_of(int32_t device);
const Target& host_target();

}  // namespace kf
#endif  // KF_TARGET_H_
