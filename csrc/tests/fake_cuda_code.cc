// fake_cuda_code.cc: libraries and launches. Kernels run as host functions, at once or when their graph is replayed.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

#include "fake_cuda_state.h"

namespace kf::cuda {
struct KernelTag {
  std::string name;
  kf_fake_kernel function = nullptr;
  std::vector<size_t> parameters;  // bytes
  int32_t shared = 0, local = 0, threads = 1024, allowed = 0, wide_cluster = 0;
};
struct LibraryTag {
  void* host = nullptr;
  std::map<std::string, std::unique_ptr<KernelTag>> kernels;
};
}  // namespace kf::cuda

namespace fake {
namespace {

constexpr int32_t kSharedDefault = 48 * 1024, kSharedOptinMax = 232448, kSms = 132;

struct Section {
  uint64_t size;
  std::string bytes;
};
std::map<std::string, Section> sections_of(const char* image) {
  Elf64_Ehdr h;
  std::memcpy(&h, image, sizeof h);
  auto header = [&](size_t i) {
    Elf64_Shdr s;
    std::memcpy(&s, image + h.e_shoff + i * sizeof s, sizeof s);
    return s;
  };
  std::map<std::string, Section> out;
  Elf64_Shdr names = header(h.e_shstrndx);
  for (size_t i = 0; i < h.e_shnum; ++i) {
    Elf64_Shdr s = header(i);
    out[image + names.sh_offset + s.sh_name] = {s.sh_size, s.sh_type == SHT_NOBITS ? "" : std::string(image + s.sh_offset, s.sh_size)};
  }
  return out;
}

// What a compiler wrote about one kernel (`.nv.info.<name>`): entries of a format byte, an attribute byte and 16 bits; format 4 has that many bytes more.
void read_compiled(const std::string& info, KernelTag* kernel) {
  std::map<uint16_t, size_t> parameters;
  for (size_t at = 0; at + 4 <= info.size();) {
    auto u8 = [&](size_t i) { return static_cast<uint8_t>(info[i]); };
    auto u16 = [&](size_t i) { return static_cast<uint16_t>(u8(i) | u8(i + 1) << 8); };
    auto u32 = [&](size_t i) { return static_cast<uint32_t>(u16(i)) | static_cast<uint32_t>(u16(i + 2)) << 16; };
    size_t payload = at + 4, n = u8(at) == 4 ? u16(at + 2) : 0;
    if (u8(at) == 4 && u8(at + 1) == 0x17) parameters[u16(payload + 4)] = u32(payload + 8) >> 18;  // ordinal; size in the upper bits
    if (u8(at) == 4 && u8(at + 1) == 0x05) kernel->threads = static_cast<int32_t>(u32(payload) * u32(payload + 4) * u32(payload + 8));
    at = payload + n;
  }
  for (const auto& [ordinal, bytes] : parameters) kernel->parameters.push_back(bytes);
}

// A cubin out of a real compiler. Its kernels are launched and do nothing.
Result read_cubin(const char* image, const std::map<std::string, Section>& sections, LibraryTag* library) {
  Elf64_Ehdr h;
  std::memcpy(&h, image, sizeof h);
  uint32_t sm = h.e_ident[EI_OSABI] == 0x41 ? h.e_flags >> 8 & 0xFF : h.e_flags & 0xFF;
  if (sm / 10 != static_cast<uint32_t>(state().can["major"])) return kNoBinary;
  const std::string prefix = ".nv.info.";
  for (const auto& [name, section] : sections) {
    if (name.rfind(prefix, 0) != 0) continue;
    auto kernel = std::make_unique<KernelTag>();
    kernel->name = name.substr(prefix.size());
    read_compiled(section.bytes, kernel.get());
    auto shared = sections.find(".nv.shared." + kernel->name);
    bool reserved = sections.count(".nv.shared.reserved.0") != 0;  // the section then counts the system's kilobyte too
    if (shared != sections.end()) kernel->shared = static_cast<int32_t>(shared->second.size) - (reserved ? 1024 : 0);
    library->kernels[kernel->name] = std::move(kernel);
  }
  return library->kernels.empty() ? kInvalidImage : 0;
}

void* open_host(const std::string& image) {
  int fd = memfd_create("fake-cuda-code", MFD_CLOEXEC);
  if (write(fd, image.data(), image.size()) != static_cast<ssize_t>(image.size())) return nullptr;
  static int serial = 0;  // the loader knows files by their path
  std::string path = "/proc/self/fd/";
  for (int n = ++serial; n > 0; --n) path += "./";
  void* handle = dlopen((path + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
  close(fd);
  return handle;
}

// Lines of `.kf.info`: arch=90, then kf_main params=8,8,4 shared=0 threads=1024.
Result read_info(const std::string& info, LibraryTag* library) {
  std::istringstream lines(info);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name.rfind("arch=", 0) == 0) {
      if (std::stoll(name.substr(5)) / 10 != state().can["major"]) return kNoBinary;
      continue;
    }
    auto kernel = std::make_unique<KernelTag>();
    kernel->name = name;
    kernel->function = reinterpret_cast<kf_fake_kernel>(dlsym(library->host, name.c_str()));
    for (std::string word; words >> word;) {
      std::string key = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
      if (key == "shared") kernel->shared = std::stoi(value);
      if (key == "local") kernel->local = std::stoi(value);
      if (key == "threads") kernel->threads = std::stoi(value);
      if (key != "params") continue;
      std::istringstream sizes(value);
      for (std::string size; std::getline(sizes, size, ',');) kernel->parameters.push_back(std::stoul(size));
    }
    library->kernels[name] = std::move(kernel);
  }
  return 0;
}

int32_t occupancy(const KernelTag& kernel, int64_t threads, int64_t dynamic) {
  int64_t shared = kernel.shared + dynamic + 1024;  // the system's own kilobyte
  if (threads > kernel.threads) return 0;
  int64_t by_threads = 2048 / ((threads + 31) / 32 * 32), by_shared = 233472 / shared;
  return static_cast<int32_t>(std::min<int64_t>({32, by_threads, by_shared}));
}

int64_t volume(const uint32_t* e) { return int64_t{e[0]} * e[1] * e[2]; }
std::string three(const uint32_t* e) { return std::to_string(e[0]) + "," + std::to_string(e[1]) + "," + std::to_string(e[2]); }

}  // namespace

KF_FAKE Result cuLibraryLoadData(LibraryHandle* library, const void* code, void* jit, void** jit_values, uint32_t jit_count, void* options,
                                 void** values, uint32_t count) {
  Call call("cuLibraryLoadData", kStarted | kUnsafe);
  if (call.refused != 0) return call.refused;
  if (jit != nullptr || jit_values != nullptr || jit_count != 0 || options != nullptr || values != nullptr || count != 0)
    return kInvalidValue;
  auto image = static_cast<const char*>(code);
  auto loaded = std::make_unique<LibraryTag>();
  std::map<std::string, Section> sections = sections_of(image);
  std::string info = sections[".kf.info"].bytes, host = sections[".kf.host"].bytes;
  if (!host.empty() && (loaded->host = open_host(host)) == nullptr) return kInvalidImage;
  Result result = info.empty() ? read_cubin(image, sections, loaded.get()) : read_info(info, loaded.get());
  if (result != 0) return result;
  ++state().alive["library"];
  *library = loaded.release();
  return 0;
}
KF_FAKE Result cuLibraryUnload(LibraryHandle library) {
  Call call("cuLibraryUnload", kStarted | kUnsafe);
  if (library->host != nullptr) dlclose(library->host);
  delete library;
  --state().alive["library"];
  return call.refused;
}
KF_FAKE Result cuLibraryGetKernel(KernelHandle* kernel, LibraryHandle library, const char* name) {
  Call call("cuLibraryGetKernel", kStarted, name);
  if (call.refused != 0) return call.refused;
  auto at = library->kernels.find(name);
  if (at == library->kernels.end()) return kNotFound;
  *kernel = at->second.get();
  return 0;
}
KF_FAKE Result cuKernelGetFunction(Function* function, KernelHandle kernel) {
  Call call("cuKernelGetFunction", kStarted | kContext | kUnsafe, kernel->name);
  *function = reinterpret_cast<Function>(kernel);
  return call.refused;
}
KF_FAKE Result cuKernelGetAttribute(int32_t* value, int32_t attribute, KernelHandle kernel, DeviceId) {
  Call call("cuKernelGetAttribute", kStarted, std::to_string(attribute));
  if (attribute == kMaxThreads)
    *value = kernel->threads;
  else if (attribute == kSharedStatic)
    *value = kernel->shared;
  else if (attribute == kLocal)
    *value = kernel->local;
  else
    return kInvalidValue;
  return call.refused;
}
KF_FAKE Result cuKernelSetAttribute(int32_t attribute, int32_t value, KernelHandle kernel, DeviceId) {
  Call call("cuKernelSetAttribute", kStarted, kernel->name + " " + std::to_string(attribute) + "=" + std::to_string(value));
  if (call.refused != 0) return call.refused;
  if (attribute == kNonPortableCluster)
    kernel->wide_cluster = value;
  else if (attribute == kMaxDynamicShared && kernel->shared + value <= kSharedOptinMax)
    kernel->allowed = value;
  else
    return kInvalidValue;
  return 0;
}
Result parameter_info(KernelHandle kernel, size_t index, size_t* offset, size_t* bytes) {
  if (index >= kernel->parameters.size()) return kInvalidValue;
  *offset = 0;
  for (size_t i = 0; i < index; ++i) *offset += kernel->parameters[i];
  *bytes = kernel->parameters[index];
  return 0;
}
KF_FAKE Result cuKernelGetParamInfo(KernelHandle kernel, size_t index, size_t* offset, size_t* bytes) {
  Call call("cuKernelGetParamInfo", kStarted, std::to_string(index));
  return call.refused != 0 ? call.refused : parameter_info(kernel, index, offset, bytes);
}
KF_FAKE Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int32_t* blocks, Function function, int32_t threads, size_t dynamic) {
  Call call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kStarted | kContext);
  auto fixed = static_cast<int32_t>(state().can["occupancy"]);
  *blocks = fixed >= 0 ? fixed : occupancy(*reinterpret_cast<KernelHandle>(function), threads, static_cast<int64_t>(dynamic));
  return call.refused;
}
KF_FAKE Result cuOccupancyMaxActiveClusters(int32_t* clusters, Function function, const LaunchConfig* config) {
  Call call("cuOccupancyMaxActiveClusters", kStarted | kContext);
  if (config->attribute_count == 0 || config->attributes[0].id != kClusterDims) return kInvalidValue;
  int64_t blocks = occupancy(*reinterpret_cast<KernelHandle>(function), volume(config->block), config->shared_bytes) * int64_t{kSms};
  auto fixed = static_cast<int32_t>(state().can["clusters"]);
  *clusters = fixed >= 0 ? fixed : static_cast<int32_t>(blocks / volume(config->attributes[0].value.cluster));
  return call.refused;
}

// What the device would be told, in words; refuses as the driver does.
Result read_launch(const LaunchConfig& c, const KernelTag& kernel, std::string* text) {
  *text = kernel.name + " grid=" + three(c.grid) + " block=" + three(c.block) + " shared=" + std::to_string(c.shared_bytes);
  if (volume(c.grid) == 0 || volume(c.block) == 0 || volume(c.block) > 1024) return kInvalidValue;
  if (volume(c.block) > kernel.threads) return 701;
  if (static_cast<int64_t>(c.shared_bytes) > std::max(kSharedDefault - kernel.shared, kernel.allowed)) return kInvalidValue;
  for (uint32_t i = 0; i < c.attribute_count; ++i) {
    const LaunchAttribute& a = c.attributes[i];
    if (a.id == kCooperative && a.value.cooperative == 1) {
      *text += " cooperative";
      if (volume(c.grid) > occupancy(kernel, volume(c.block), c.shared_bytes) * int64_t{kSms}) return kTooLarge;
    } else if (a.id == kClusterDims) {
      const uint32_t* d = a.value.cluster;
      *text += " cluster=" + three(d);
      for (int k = 0; k < 3; ++k) {
        if (d[k] == 0 || c.grid[k] % d[k] != 0) return kInvalidCluster;
      }
      if (volume(d) > 8 && kernel.wide_cluster == 0) return kInvalidCluster;
    } else {
      return kInvalidValue;
    }
  }
  return 0;
}

KF_FAKE Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void** extra) {
  const KernelTag& kernel = *reinterpret_cast<KernelHandle>(function);
  std::string text;
  Result bad = read_launch(*config, kernel, &text);
  // Parameters are copied now, as by the driver: the caller's are gone when a graph is replayed.
  auto values = std::make_shared<std::vector<uint64_t>>(kernel.parameters.size());
  text += " args=";
  for (size_t i = 0; i < values->size(); ++i) {
    std::memcpy(&(*values)[i], parameters[i], kernel.parameters[i]);
    char word[40];
    std::snprintf(word, sizeof word, "%s%zu:%llx", i == 0 ? "" : ",", kernel.parameters[i], static_cast<unsigned long long>((*values)[i]));
    text += word;
  }
  Call call("cuLaunchKernelEx", kStarted | kContext,
            text + " stream=" + std::to_string(config->stream == nullptr ? 0 : config->stream->number));
  if (call.refused != 0) return call.refused;
  if (bad != 0 || extra != nullptr) return bad != 0 ? bad : kInvalidValue;
  State& s = state();
  Node node{kernel.name, s.can["kernel_ns"], nullptr};
  std::vector<uint32_t> grid(config->grid, config->grid + 3), block(config->block, config->block + 3);
  kf_fake_kernel host = kernel.function;
  node.work = [=] {
    State& st = state();
    if (st.next_fault != 0) {
      st.fault = st.next_fault;
      st.next_fault = 0;
      return;
    }
    if (host == nullptr) return;
    std::vector<void*> at;
    for (uint64_t& v : *values) at.push_back(&v);
    host(at.data(), grid.data(), block.data());
  };
  return submit(config->stream, std::move(node));
}

}  // namespace fake
