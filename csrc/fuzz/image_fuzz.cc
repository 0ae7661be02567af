// image_fuzz.cc: any bytes as a host image, and as a cubin. Nothing is loaded; the readers must refuse or accept without touching what is not there.
#include <elf.h>

#include <cstring>
#include <string>

#include "cuda_image.h"
#include "error.h"
#include "image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string image(reinterpret_cast<const char*>(data), size);
  try {
    kf::check_host_image(image, {"kf_main"});
  } catch (const kf::Error&) {}
  // Host images have the tables that cubins have: with another machine in the header one is read as the other.
  Elf64_Ehdr header;
  if (size < sizeof header) return 0;
  std::memcpy(&header, image.data(), sizeof header);
  header.e_machine = 190;
  header.e_type = ET_EXEC;
  std::memcpy(image.data(), &header, sizeof header);
  try {
    kf::cuda::Cubin cubin(image);
    cubin.need("kf_main");
  } catch (const kf::Error&) {}
  return 0;
}
