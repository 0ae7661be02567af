// cuda_program.h: the loaded code of one plan on a CUDA device: its library while the plan is made, then its launches.
#ifndef KF_CUDA_PROGRAM_H_
#define KF_CUDA_PROGRAM_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "cuda_device.h"
#include "cuda_image.h"
#include "target.h"

namespace kf::cuda {

// The geometry of a kernel, in this order in Kernel::geometry: three extents each, bytes, and cooperative or not. A cluster of zeros is none.
enum Geometry : size_t { kGrid = 0, kBlock = 3, kShared = 6, kCluster = 7, kCoop = 10, kGeometry = 11 };

// A checked cubin as a library, which belongs to no context. Made, asked and freed inside a Scope.
class Loaded {
 public:
  Loaded(Device& device, std::string_view image);
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  // The kernel, loaded into the device's context: loading is lazy otherwise, and a stream capture forbids it.
  KernelHandle kernel(const std::string& entry);
  const Cubin& cubin() const { return cubin_; }

 private:
  Device& device_;
  Cubin cubin_;
  LibraryHandle library_ = nullptr;
  std::map<std::string, KernelHandle> kernels_;
};

// Throws Error(KFR_BAD_SPEC) when the spec's arguments are not what the kernels take.
std::unique_ptr<Program> make_program(Device& device, std::unique_ptr<Loaded> loaded, const Spec& spec);

}  // namespace kf::cuda
#endif  // KF_CUDA_PROGRAM_H_
