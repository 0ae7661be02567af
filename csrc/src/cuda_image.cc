// cuda_image.cc: the ELF of a cubin, as far as it must be right before the driver reads it.
//
// A kernel is a defined global function in a section of its own, `.text.<name>`. Variables of the device (`.nv.global`, `.nv.global.init`) say nothing
// here: every `constexpr` at file scope is one, and whether code refers to it cannot be told from the image. The judge refuses those that keep state
// where it can be told, in the compiler's assembly (go/cuda/ptx.go).
#include "cuda_image.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "error.h"
#include "image.h"

namespace kf::cuda {
namespace {

constexpr uint16_t kMachine = 190;  // EM_CUDA
constexpr size_t kSymbolsMax = 1 << 16;

[[noreturn]] void bad(const std::string& text, const std::string& hint = {}) {
  throw Error(KFR_BAD_CODE, "check the cubin: " + text, hint);
}

class Elf {
 public:
  explicit Elf(std::string_view image) : image_(image) {
    if (image.size() > kImageBytesMax)
      bad(std::to_string(image.size()) + " bytes (expected at most " + std::to_string(kImageBytesMax) + ")");
    if (image.empty()) bad("it is empty");
    auto h = read<Elf64_Ehdr>(0, "the ELF header");
    if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
      bad("it is no ELF file", "compile to a cubin (NVRTC: --gpu-architecture=sm_XY), not to PTX");
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != kMachine)
      bad("it is not for CUDA devices: ELF machine " + std::to_string(h.e_machine) + " (expected " + std::to_string(kMachine) +
          ", 64-bit)");
    if (h.e_type != ET_EXEC)
      bad("it is not linked (ELF type " + std::to_string(h.e_type) + ", expected 2)", "compile without relocatable device code");
    if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shnum == 0 || h.e_shstrndx >= h.e_shnum) bad("its section headers are malformed");
    for (size_t i = 0; i < h.e_shnum; ++i) sections_.push_back(read<Elf64_Shdr>(at(h.e_shoff, i, sizeof(Elf64_Shdr)), "a section header"));
    for (const Elf64_Shdr& s : sections_) {
      bool inside = s.sh_type == SHT_NOBITS || (s.sh_offset <= image_.size() && s.sh_size <= image_.size() - s.sh_offset);
      if (!inside) bad("a section lies outside the file");
    }
    bool segments = h.e_phoff <= image_.size() && uint64_t{h.e_phnum} * h.e_phentsize <= image_.size() - h.e_phoff;
    if (!segments) bad("a program header lies outside the file");
    names_ = h.e_shstrndx;
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  std::string_view section_name(const Elf64_Shdr& s) const { return string(names_, s.sh_name); }

  std::string_view string(size_t table, uint64_t offset) const {
    if (table >= sections_.size() || sections_[table].sh_type != SHT_STRTAB) bad("a name lies in no string table");
    std::string_view text = image_.substr(sections_[table].sh_offset, sections_[table].sh_size);
    size_t end = offset < text.size() ? text.find('\0', offset) : std::string_view::npos;
    if (end == std::string_view::npos) bad("a name lies outside its table");
    return text.substr(offset, end - offset);
  }

  std::vector<Elf64_Sym> symbols(const Elf64_Shdr& table) const {
    if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_size / sizeof(Elf64_Sym) > kSymbolsMax) bad("its symbol table is malformed");
    std::vector<Elf64_Sym> out;
    for (size_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i)
      out.push_back(read<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym), "a symbol"));
    return out;
  }

 private:
  template <class T>
  T read(uint64_t offset, const char* what) const {
    if (offset > image_.size() || image_.size() - offset < sizeof(T)) bad(std::string(what) + " lies outside the file");
    T value;
    std::memcpy(&value, image_.data() + offset, sizeof value);
    return value;
  }
  // An offset past the file stays past it.
  uint64_t at(uint64_t base, uint64_t index, uint64_t size) const { return base > image_.size() ? base : base + index * size; }

  std::string_view image_;
  std::vector<Elf64_Shdr> sections_;
  size_t names_ = 0;
};

}  // namespace

Cubin::Cubin(std::string_view image) {
  Elf elf(image);
  for (const Elf64_Shdr& section : elf.sections()) {
    if (section.sh_type != SHT_SYMTAB) continue;
    for (const Elf64_Sym& symbol : elf.symbols(section)) {
      bool function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL;
      if (!function || symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= elf.sections().size()) continue;
      std::string name(elf.string(section.sh_link, symbol.st_name));
      if (elf.section_name(elf.sections()[symbol.st_shndx]) == ".text." + name) kernels_.push_back(std::move(name));
    }
  }
  if (kernels_.empty()) bad("it holds no kernel", "entry points are `extern \"C\" __global__` functions");
}

void Cubin::need(const std::string& entry) const {
  if (std::find(kernels_.begin(), kernels_.end(), entry) != kernels_.end()) return;
  std::string held;
  for (size_t i = 0; i < kernels_.size() && i < 4; ++i) held += (i == 0 ? "" : ", ") + ticked(kernels_[i]);
  bad("it has no kernel " + ticked(entry) + " (it holds " + held + ")", "entry points are `extern \"C\" __global__` functions");
}

void Cubin::need_only(const std::vector<std::string>& entries) const {
  for (const std::string& kernel : kernels_) {
    if (std::find(entries.begin(), entries.end(), kernel) == entries.end())
      bad("it has the kernel " + ticked(kernel) + ", which the spec does not launch",
          "a helper is a `__device__` function, not an entry point");
  }
}

}  // namespace kf::cuda
