// image.h: reads a host image before the loader does, and refuses what the loader would act on beyond mapping and binding.
#ifndef KF_IMAGE_H_
#define KF_IMAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kf {

inline constexpr size_t kImageBytesMax = size_t{64} << 20;

// Throws Error(KFR_BAD_CODE) naming the rule. Returns the entries' offsets from the load address, in the order of `entries`.
std::vector<uint64_t> check_host_image(std::string_view image, const std::vector<std::string>& entries);

// Whether a test has the rules left out (kfr_images_unchecked). Written before any image is loaded.
bool& images_unchecked();

// Whether an image may import this symbol.
bool allowed_import(std::string_view symbol);

}  // namespace kf
#endif  // KF_IMAGE_H_
