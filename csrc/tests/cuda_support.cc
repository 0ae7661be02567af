// cuda_support.cc: see cuda_support.h.
#include "cuda_support.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace kf::testing {
namespace {

// Before any test: no test of this program may reach a real driver.
const int redirected = setenv("KERNELFORGE_LIBCUDA", KF_FAKE_CUDA, 1);

template <class F>
void find(void* library, const char* symbol, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, symbol));
  if (*function == nullptr) throw std::runtime_error(std::string("the fake driver lacks ") + symbol);
}

}  // namespace

const FakeCuda& fake() {
  static const FakeCuda found = [] {
    void* library = dlopen(KF_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    FakeCuda f{};
    find(library, "kf_fake_log", &f.log);
    find(library, "kf_fake_clear", &f.clear);
    find(library, "kf_fake_fail", &f.fail);
    find(library, "kf_fake_fault", &f.fault);
    find(library, "kf_fake_capture_elsewhere", &f.capture_elsewhere);
    find(library, "kf_fake_set", &f.set);
    find(library, "kf_fake_alive", &f.alive);
    find(library, "kf_fake_complaints", &f.complaints);
    find(library, "cuCtxGetCurrent", &f.get_current);
    find(library, "cuCtxSetCurrent", &f.set_current);
    return f;
  }();
  return found;
}

std::vector<std::string> logged(const std::string& word) {
  std::vector<std::string> out;
  std::istringstream lines(fake().log());
  for (std::string line; std::getline(lines, line);) {
    if (line == word) out.emplace_back();
    if (line.rfind(word + " ", 0) == 0) out.push_back(line.substr(word.size() + 1));
  }
  return out;
}

void CudaTest::SetUp() {
  ASSERT_EQ(redirected, 0);
  kfr_error error{};
  ASSERT_EQ(kfr_device_open(0, nullptr, &error), KFR_OK) << error.text;
  fake().clear();
}

void CudaTest::TearDown() {
  fake().fault(0);
  fake().capture_elsewhere(0);
  fake().set("memory", int64_t{1} << 40);
  fake().set("kernel_ns", 10000);
  fake().set("occupancy", -1);
  fake().set("clusters", -1);
  EXPECT_STREQ(fake().complaints(), "");
}

std::string cubin(const std::string& info, const std::string& host, uint64_t variables) {
  struct Section {
    std::string name, bytes;
    Elf64_Shdr header{};
  };
  std::vector<Section> sections(4);
  sections[1].name = ".shstrtab", sections[2].name = ".strtab", sections[3].name = ".symtab";
  std::string strings(1, '\0'), symbols(sizeof(Elf64_Sym), '\0');
  std::istringstream lines(info);
  for (std::string line; std::getline(lines, line);) {
    std::string kernel = line.substr(0, line.find(' '));
    if (kernel.rfind("arch=", 0) == 0) continue;
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(strings.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = static_cast<Elf64_Half>(sections.size());
    strings += kernel + '\0';
    symbols.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
    sections.push_back({".text." + kernel, std::string(16, '\0')});
  }
  sections[2].bytes = strings, sections[3].bytes = symbols;
  sections.push_back({".kf.info", info});
  if (!host.empty()) sections.push_back({".kf.host", host});
  if (variables > 0) sections.push_back({".nv.global", ""});
  Elf64_Ehdr h{};
  std::memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = ELFCLASS64, h.e_ident[EI_DATA] = ELFDATA2LSB, h.e_ident[EI_VERSION] = EV_CURRENT;
  h.e_type = ET_EXEC, h.e_machine = 190, h.e_version = EV_CURRENT, h.e_ehsize = sizeof h, h.e_shentsize = sizeof(Elf64_Shdr);
  h.e_shnum = static_cast<Elf64_Half>(sections.size()), h.e_shstrndx = 1;
  std::string& names = sections[1].bytes;
  for (Section& s : sections) {
    s.header.sh_name = static_cast<Elf64_Word>(names.size());
    names += s.name + '\0';
  }
  std::string out(sizeof h, '\0');
  for (size_t i = 1; i < sections.size(); ++i) {
    Section& s = sections[i];
    out.resize((out.size() + 15) / 16 * 16);
    s.header.sh_type = i < 3 ? SHT_STRTAB : i == 3 ? SHT_SYMTAB : SHT_PROGBITS;
    s.header.sh_offset = out.size(), s.header.sh_size = s.bytes.size();
    if (i == 3) s.header.sh_link = 2, s.header.sh_entsize = sizeof(Elf64_Sym);
    if (s.name == ".nv.global") s.header.sh_type = SHT_NOBITS, s.header.sh_size = variables;
    out += s.bytes;
  }
  out.resize((out.size() + 15) / 16 * 16);
  h.e_shoff = out.size();
  for (const Section& s : sections) out.append(reinterpret_cast<const char*>(&s.header), sizeof s.header);
  std::memcpy(out.data(), &h, sizeof h);
  return out;
}

std::string scale_cubin() {
  return cubin("arch=90\nkf_main params=8,8,4,4,8 shared=0 threads=1024\n", build(R"(
KF_ENTRY void kf_main(void** p, const uint32_t*, const uint32_t*) {
  const float* x = *static_cast<const float**>(p[0]);
  float* y = *static_cast<float**>(p[1]);
  for (int64_t i = 0; i < *static_cast<int64_t*>(p[4]); ++i) y[i] = x[i] * *static_cast<float*>(p[2]) + *static_cast<int32_t*>(p[3]);
})"));
}

std::string cuda_plan_json(const std::string& id, const std::vector<int64_t>& sizes, const std::string& workspaces,
                           const std::string& kernels) {
  std::string host = plan_json(id, sizes);
  size_t spec = host.find("\"spec\"");
  return host.substr(0, spec) + R"("spec": {"schema": 1, "constants": {}, "workspaces": [)" + workspaces + R"(], "kernels": [)" + kernels +
         R"(]}, "align": [16, 16], "deterministic": true, "exact": true})";
}

std::string cuda_plan_json(const std::string& id, const std::vector<int64_t>& sizes) {
  return cuda_plan_json(id, sizes, "",
                        R"j({"entry": "kf_main", "grid": ["ceildiv(out0_numel, 256)", "1", "1"], "block": ["256", "1", "1"], "smem": "0",
    "args": [{"slot": "self"}, {"slot": "out0"}, {"float": "0x1p+1", "type": "f32"}, {"int": "1", "type": "i32"}, {"int": "out0_numel", "type": "i64"}]})j");
}

BufferPtr device_buffer(uint64_t bytes, int32_t device) {
  kfr_buffer* buffer = nullptr;
  kfr_error error{};
  EXPECT_EQ(kfr_buffer_create(bytes, device, &buffer, &error), KFR_OK) << error.text;
  return BufferPtr(buffer);
}

void open_in_fresh_process(const std::map<std::string, std::string>& environment, int32_t device) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  kfr_error error{};
  kfr_status status = kfr_device_open(device, nullptr, &error);
  std::fprintf(stderr, "%s; hint: %s\n", error.text, error.hint);
  std::exit(status);
}

}  // namespace kf::testing
