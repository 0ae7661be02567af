// cuda_image.h: reads a cubin before the driver does: is it one, do its tables lie inside it, which kernels does it hold, does it keep state.
#ifndef KF_CUDA_IMAGE_H_
#define KF_CUDA_IMAGE_H_

#include <string>
#include <string_view>
#include <vector>

namespace kf::cuda {

// The kernels of a cubin. Throws Error(KFR_BAD_CODE) for whatever is none.
class Cubin {
 public:
  explicit Cubin(std::string_view image);
  const std::vector<std::string>& kernels() const { return kernels_; }
  void need(const std::string& entry) const;                      // throws Error(KFR_BAD_CODE)
  void need_only(const std::vector<std::string>& entries) const;  // no kernel besides; throws Error(KFR_BAD_CODE)

 private:
  std::vector<std::string> kernels_;
};

}  // namespace kf::cuda
#endif  // KF_CUDA_IMAGE_H_
