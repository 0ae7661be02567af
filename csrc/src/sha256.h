// sha256.h: SHA-256 (FIPS 180-4), for the names of code and sources in packs.
#ifndef KF_SHA256_H_
#define KF_SHA256_H_

#include <string>
#include <string_view>

namespace kf {

std::string sha256_hex(std::string_view bytes);  // 64 lower-case digits

}  // namespace kf
#endif  // KF_SHA256_H_
