// layout.cc: the ELF header and the program headers: only what our compile command produces is let through.
#include "layout.h"

#include <algorithm>
#include <iterator>

#include "error.h"
#include "image.h"

namespace kf {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSpanMax = uint64_t{256} << 20;
constexpr uint64_t kAlignMax = uint64_t{2} << 20;
constexpr size_t kHeadersMax = 32;
constexpr uint32_t kSframe = 0x6474e554;  // PT_GNU_SFRAME of newer linkers

uint64_t page_down(uint64_t v) { return v & ~(kPage - 1); }
uint64_t page_up(uint64_t v) { return page_down(v + kPage - 1); }

// Segments that the loader only reads, or leaves alone: they must lie in constant memory.
bool is_inert(uint32_t type) {
  constexpr uint32_t kInert[] = {PT_PHDR, PT_NOTE, PT_GNU_EH_FRAME, PT_GNU_PROPERTY, kSframe};
  return std::find(std::begin(kInert), std::end(kInert), type) != std::end(kInert);
}

}  // namespace

void bad_image(const std::string& text, const std::string& hint) { throw Error(KFR_BAD_CODE, "check the image: " + text, hint); }

Layout::Layout(std::string_view image) : image_(image) {
  read_header();
  read_segments();
  check_inert();
}

void Layout::read_header() {
  if (image_.size() > kImageBytesMax) {
    bad_image(std::to_string(image_.size()) + " bytes (expected at most " + std::to_string(kImageBytesMax) + ")");
  }
  auto h = read<Elf64_Ehdr>(0, "the ELF header");
  if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) bad_image("it is no ELF file");
  bool x86 = h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_ident[EI_DATA] == ELFDATA2LSB && h.e_machine == EM_X86_64;
  if (!x86) bad_image("it is not for 64-bit x86-64");
  bool plain = h.e_ident[EI_VERSION] == EV_CURRENT && h.e_version == EV_CURRENT && h.e_ident[EI_ABIVERSION] == 0 &&
               (h.e_ident[EI_OSABI] == ELFOSABI_SYSV || h.e_ident[EI_OSABI] == ELFOSABI_GNU);
  if (!plain) bad_image("it has an unknown ELF version or ABI");
  if (h.e_type != ET_DYN) bad_image("it is not a shared object", "compile with -shared");
  bool sane = h.e_ehsize == sizeof(Elf64_Ehdr) && h.e_phentsize == sizeof(Elf64_Phdr) && h.e_phnum > 0 && h.e_phnum <= kHeadersMax;
  if (!sane || h.e_phoff % 8 != 0) bad_image("its program headers are malformed");
  headers_at_ = h.e_phoff;
  for (size_t i = 0; i < h.e_phnum; ++i) {
    if (headers_at_ > image_.size()) bad_image("a program header lies outside the file");
    headers_.push_back(read<Elf64_Phdr>(headers_at_ + i * sizeof(Elf64_Phdr), "a program header"));
  }
}

void Layout::read_segments() {
  bool stack = false;
  for (const Elf64_Phdr& h : headers_) {
    if (h.p_type == PT_LOAD) {
      add_load(h);
    } else if (h.p_type == PT_DYNAMIC) {
      if (dynamic_.p_type == PT_DYNAMIC) bad_image("it has two dynamic sections");
      dynamic_ = h;
    } else if (h.p_type == PT_GNU_RELRO) {
      if (relro_.p_type == PT_GNU_RELRO) bad_image("it has two relro segments");
      relro_ = h;
    } else if (h.p_type == PT_GNU_STACK) {
      if (h.p_flags & PF_X) bad_image("it asks for an executable stack", "link with -z noexecstack");
      stack = true;
    } else if (h.p_type == PT_TLS) {
      bad_image("it uses thread-local storage");
    } else if (h.p_type == PT_INTERP) {
      bad_image("it names a program interpreter");
    } else if (h.p_type != PT_NULL && !is_inert(h.p_type)) {
      bad_image("it has a segment of the unknown type " + std::to_string(h.p_type));
    }
  }
  if (loads_.empty()) bad_image("it has nothing to load");
  if (!stack) bad_image("it does not say that its stack is not executable", "link with -z noexecstack");
  if (dynamic_.p_type != PT_DYNAMIC) bad_image("it has no dynamic section");
}

void Layout::add_load(const Elf64_Phdr& h) {
  if ((h.p_flags & PF_W) && (h.p_flags & PF_X)) bad_image("a segment is writable and executable");
  if (!(h.p_flags & PF_R) || (h.p_flags & ~uint32_t{PF_R | PF_W | PF_X})) bad_image("a segment has unusual rights");
  bool power = h.p_align >= kPage && h.p_align <= kAlignMax && (h.p_align & (h.p_align - 1)) == 0;
  if (!power || (h.p_vaddr - h.p_offset) % h.p_align != 0) bad_image("a segment is badly aligned");
  if (h.p_memsz == 0 || h.p_filesz > h.p_memsz || h.p_vaddr > kSpanMax || h.p_memsz > kSpanMax - h.p_vaddr) {
    bad_image("a segment has a bad size or address");
  }
  if (h.p_offset > image_.size() || h.p_filesz > image_.size() - h.p_offset) bad_image("a segment lies outside the file");
  if (h.p_memsz > h.p_filesz && !(h.p_flags & PF_W)) bad_image("a read-only segment is longer than the file says");
  bool behind = loads_.empty() || page_down(h.p_vaddr) >= page_up(loads_.back().p_vaddr + loads_.back().p_memsz);
  if (!behind) bad_image("segments overlap or are out of order");
  loads_.push_back(h);
}

void Layout::check_inert() const {
  const Elf64_Phdr& front = loads_.front();  // the loader reads the program headers again from memory
  uint64_t bytes = headers_.size() * sizeof(Elf64_Phdr);
  if (front.p_offset != 0 || (front.p_flags & PF_W) || front.p_filesz < headers_at_ + bytes) {
    bad_image("its first segment does not hold its headers");
  }
  for (const Elf64_Phdr& h : headers_) {
    if (!is_inert(h.p_type)) continue;
    if (h.p_type == PT_PHDR && (h.p_offset != headers_at_ || h.p_filesz != bytes)) bad_image("its program headers are malformed");
    bool there = constant(h.p_vaddr, h.p_memsz, "a note or header segment") == h.p_offset && h.p_filesz == h.p_memsz;
    if (!there) bad_image("a note or header segment is malformed");
    if (h.p_type == PT_NOTE || h.p_type == PT_GNU_PROPERTY) read_notes(h);
  }
}

// The loader walks notes by the sizes that they state, and the properties inside one likewise.
void Layout::read_notes(const Elf64_Phdr& h) const {
  uint64_t align = h.p_align == 8 ? 8 : 4, end = h.p_offset + h.p_filesz;
  auto up = [&](uint64_t v) { return (v + align - 1) & ~(align - 1); };
  for (uint64_t at = h.p_offset; at < end;) {
    auto note = read<Elf64_Nhdr>(at, "a note");
    uint64_t content = up(at + sizeof note + note.n_namesz), next = up(content + note.n_descsz);
    if (next > end) bad_image("a note is malformed");
    for (uint64_t p = content; note.n_type == NT_GNU_PROPERTY_TYPE_0 && p < content + note.n_descsz;) {
      p = up(p + 8 + read<uint32_t>(p + 4, "a note"));
      if (p > next) bad_image("a note is malformed");
    }
    at = next;
  }
}

void Layout::check_state() const {
  const Elf64_Phdr* writable = nullptr;
  for (const Elf64_Phdr& s : loads_) {
    if (!(s.p_flags & PF_W)) continue;
    if (writable != nullptr) bad_image("it has several writable segments (expected one)", "make tables const, keep no state between calls");
    writable = &s;
  }
  bool relro = relro_.p_type == PT_GNU_RELRO;
  if (writable == nullptr) {
    if (relro) bad_image("its relro segment covers nothing writable");
    return;
  }
  // The loader protects whole pages, down to the last one that the relro segment fills.
  uint64_t begin = page_down(writable->p_vaddr), end = writable->p_vaddr + writable->p_memsz;
  bool covered = relro && relro_.p_vaddr >= begin && relro_.p_vaddr <= writable->p_vaddr && relro_.p_memsz <= kSpanMax &&
                 page_down(relro_.p_vaddr + relro_.p_memsz) >= end && relro_.p_vaddr + relro_.p_memsz <= page_up(end);
  if (!covered) { bad_image("it has writable variables", "make tables const, keep no state between calls; link with -z relro -z now"); }
}

uint64_t Layout::constant(uint64_t address, uint64_t n, const char* what) const {
  for (const Elf64_Phdr& s : loads_) {
    if (address < s.p_vaddr || address - s.p_vaddr > s.p_filesz || s.p_filesz - (address - s.p_vaddr) < n) continue;
    if (s.p_flags & PF_W) bad_image(std::string(what) + " lies in a writable segment");
    return s.p_offset + (address - s.p_vaddr);
  }
  bad_image(std::string(what) + " lies outside the segments");
}

uint64_t Layout::dynamic_offset() const {
  for (const Elf64_Phdr& s : loads_) {
    uint64_t into = dynamic_.p_vaddr - s.p_vaddr;
    if (dynamic_.p_vaddr < s.p_vaddr || into > s.p_filesz || dynamic_.p_filesz > s.p_filesz - into || dynamic_.p_vaddr % 8 != 0) continue;
    return s.p_offset + into;
  }
  bad_image("its dynamic section lies outside the segments");
}

bool Layout::is_code(uint64_t address) const {
  return std::any_of(loads_.begin(), loads_.end(),
                     [&](const Elf64_Phdr& s) { return (s.p_flags & PF_X) && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz; });
}

bool Layout::in_writable(uint64_t address) const {
  return std::any_of(loads_.begin(), loads_.end(),
                     [&](const Elf64_Phdr& s) { return (s.p_flags & PF_W) && address >= s.p_vaddr && address - s.p_vaddr <= s.p_memsz; });
}

bool Layout::is_relocatable(uint64_t address, uint64_t n) const {
  uint64_t dynamic_end = dynamic_.p_vaddr + std::max(dynamic_.p_memsz, dynamic_.p_filesz);
  if (address < dynamic_end && address + n > dynamic_.p_vaddr) return false;
  return std::any_of(loads_.begin(), loads_.end(), [&](const Elf64_Phdr& s) {
    return (s.p_flags & PF_W) && address >= s.p_vaddr && s.p_memsz >= n && address - s.p_vaddr <= s.p_memsz - n;
  });
}

}  // namespace kf
