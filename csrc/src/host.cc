// host.cc: the host target. Code is an ELF shared object, checked, then loaded from a sealed memory file; kernels run through kfr_parallel.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "error.h"
#include "image.h"
#include "memfile.h"
#include "plan.h"
#include "target.h"

namespace kf {
namespace {

union kf_arg {  // as the prelude of host kernels declares it
  void* p;
  int64_t i;
  double f;
};
using Entry = void (*)(int64_t begin, int64_t end, const kf_arg* args);

constexpr int64_t kWorkMax = int64_t{1} << 48;
constexpr int32_t kThreadsMax = 4096;
enum Geometry : size_t { kWork, kGrain };

int64_t fact(int name, int64_t otherwise) {
  long v = sysconf(name);
  return v > 0 ? v : otherwise;
}

// A path of the memory file that no other image was opened by. The loader takes an image for loaded when it knows its name, and a
// descriptor's number is used again after closing; so a serial number is written into the path with segments that change nothing, and with it
// the address of the counter, since a process may hold this code twice (the extension and libkfruntime.so).
std::string unique_path(int fd) {
  static std::atomic<uint32_t> serial{0};
  std::string path = "/proc/self/fd/";
  auto write = [&](uint64_t number, int bits) {
    for (int bit = 0; bit < bits; ++bit) path += number >> bit & 1 ? ".///" : "././";
  };
  write(reinterpret_cast<uintptr_t>(&serial), 48);
  write(serial.fetch_add(1), 32);
  return path + std::to_string(fd);
}

class HostProgram final : public Program {
 public:
  HostProgram(Spec spec, int32_t threads, const std::string& id, std::string_view image) : spec_(std::move(spec)), threads_(threads) {
    std::vector<std::string> names;
    for (const Kernel& k : spec_.kernels) names.push_back(k.entry);
    MemFile file(("kernelforge-" + id).c_str(), image);  // the name that maps and debuggers show
    std::vector<uint64_t> offsets;
    if (!images_unchecked()) offsets = check_host_image(file.bytes(), names);  // on the sealed copy: nobody can change it after the check
    entries_.reserve(names.size());
    std::string path = unique_path(file.fd());
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      const char* text = dlerror();
      std::string why = text == nullptr ? "no reason given" : text;
      if (why.starts_with(path + ": ")) why.erase(0, path.size() + 2);
      throw Error(KFR_BAD_CODE, "load the image: the loader refused it: " + why);
    }
    link_map* map = nullptr;
    if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || path != map->l_name) {
      dlclose(handle_);
      throw Error(KFR_SYSTEM, "load the image: the loader took it for another image");
    }
    for (uint64_t offset : offsets) entries_.push_back(reinterpret_cast<Entry>(map->l_addr + offset));
    for (const std::string& name : names) {
      if (!images_unchecked()) break;
      void* entry = dlsym(handle_, name.c_str());
      if (entry == nullptr) throw Error(KFR_BAD_CODE, "load the image: no function " + ticked(name) + " is exported");
      entries_.push_back(reinterpret_cast<Entry>(entry));
    }
  }
  ~HostProgram() override {
    if (handle_ != nullptr) dlclose(handle_);
  }
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

  void launch(void* const* slots, const kfr_parallel* parallel, void*) const override {
    if (parallel == nullptr || parallel->run == nullptr) throw Error(KFR_BAD_ARGUMENT, "no `parallel` (host kernels need one)");
    if (parallel->threads != threads_) {
      throw Error(
          KFR_LAUNCH,
          "the plan was judged with " + std::to_string(threads_) + " threads (this call has " + std::to_string(parallel->threads) + ")",
          "run with that thread count, or judge the plan again");
    }
    for (const Kernel& kernel : spec_.kernels) {
      for (const Arg& arg : kernel.args) {
        if (arg.kind == Arg::kSlot && slots[arg.slot] == nullptr)
          throw Error(KFR_BAD_ARGUMENT, "slot " + std::to_string(arg.slot) + " is NULL");
      }
    }
    uint32_t first = spec_.inputs + spec_.outputs;
    for (size_t i = 0; i < spec_.workspaces.size(); ++i) {
      void* at = slots[first + i];
      if (spec_.workspaces[i].zeroed && at != nullptr) std::memset(at, 0, spec_.workspaces[i].bytes);
    }
    for (size_t k = 0; k < spec_.kernels.size(); ++k) run(spec_.kernels[k], entries_[k], slots, *parallel);
  }
  void warm(const std::vector<uint64_t>&) const override {}
  void time(const Series& series, const kfr_parallel* parallel, void*, double* out_ns) const override {
    time_on_host(*this, series, parallel, out_ns);
  }

 private:
  struct Body {
    Entry entry;
    kf_arg args[kKernelArgsMax];
  };

  static void run(const Kernel& kernel, Entry entry, void* const* slots, const kfr_parallel& parallel) {
    Body body;
    body.entry = entry;
    kf_arg* at = body.args;
    for (const Arg& arg : kernel.args) {
      switch (arg.kind) {
        case Arg::kSlot: at->p = slots[arg.slot]; break;
        case Arg::kInt: at->i = arg.integer; break;
        case Arg::kFloat: at->f = arg.real; break;
      }
      ++at;
    }
    auto call = [](void* ctx, int64_t begin, int64_t end) {
      const Body& b = *static_cast<const Body*>(ctx);
      b.entry(begin, end, b.args);
    };
    parallel.run(parallel.ctx, 0, kernel.geometry[kWork], kernel.geometry[kGrain], call, &body);
  }

  Spec spec_;
  int32_t threads_;
  void* handle_ = nullptr;
  std::vector<Entry> entries_;
};

class HostCode final : public Code {
 public:
  HostCode(std::string_view image, std::string id, int32_t threads) : image_(image), id_(std::move(id)), threads_(threads) {}
  int32_t threads() const override { return threads_; }
  bool typed_args() const override { return false; }
  std::vector<int64_t> read_geometry(const std::string&, json::Fields& kernel, Names* names) const override {
    int64_t work = read_expr(kernel.need("work"), *names, 1, kWorkMax);
    int64_t grain = read_expr(kernel.need("grain"), *names, 1, kWorkMax);
    return {work, grain};
  }
  std::unique_ptr<Program> bind(Spec spec) override { return std::make_unique<HostProgram>(std::move(spec), threads_, id_, image_); }

 private:
  std::string_view image_;
  std::string id_;
  int32_t threads_;
};

class HostTarget final : public Target {
 public:
  const char* name() const override { return "host"; }
  std::unique_ptr<Code> open(std::string_view image, json::Fields& plan, Names* names) const override {
    auto threads = static_cast<int32_t>(plan.need("threads").integer(1, kThreadsMax));
    names->define("threads", threads);
    names->define("cache_line", fact(_SC_LEVEL1_DCACHE_LINESIZE, 64));
    names->define("l2_bytes", fact(_SC_LEVEL2_CACHE_SIZE, int64_t{1} << 20));
    return std::make_unique<HostCode>(image, read_id(plan.need("id")), threads);
  }
  void describe(kfr_device_info*) const override { throw Error(KFR_NO_DEVICE, "open the host as a device: it is none"); }
  void wait(void*) const override {}
  std::unique_ptr<kfr_buffer> make_buffer(uint64_t bytes) const override { return make_host_buffer(bytes); }
  std::unique_ptr<kfr_buffer> import_buffer(int fd, uint64_t bytes, bool writable) const override {
    return import_host_buffer(fd, bytes, writable);
  }
  void time_reference(const kfr_parallel* parallel, void*, uint32_t samples, double* out_ns) const override {
    time_host_reference(parallel, samples, out_ns);
  }
  void time_graph(void*, void*, uint32_t, double*) const override {
    throw Error(KFR_NO_DEVICE, "time a graph on the host: CUDA devices have graphs (expected an ordinal 0, 1, ...)");
  }
};

}  // namespace

const Target& host_target() {
  static const HostTarget target;
  return target;
}

}  // namespace kf
