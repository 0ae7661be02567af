// image_fuzz.cc: any bytes as a host image. Nothing is loaded; the reader must refuse or accept without touching what is not there.
#include "error.h"
#include "image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    kf::check_host_image({reinterpret_cast<const char*>(data), size}, {"kf_main"});
  } catch (const kf::Error&) {}
  return 0;
}
