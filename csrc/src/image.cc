// image.cc: the check of a host image. It believes only what the loader believes: program headers and the dynamic section, by address.
//
// Why so strict: the loader trusts an image. It follows tables without bounds, writes relocations wherever they point, and runs what the
// dynamic section names. So every table must lie inside a read-only segment, every relocation inside a writable one and outside the dynamic
// section, and only tags, relocation kinds and segments that our compile command produces are let through.
// Beyond that: no writable memory after relocation (no state between calls), and nothing exported but the entries.
#include "image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "error.h"

namespace kf {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSpanMax = uint64_t{256} << 20;
constexpr uint64_t kAlignMax = uint64_t{2} << 20;
constexpr uint32_t kStackTraces = 0x6474e554;  // PT_GNU_SFRAME of newer linkers
constexpr size_t kHeadersMax = 32, kDynamicMax = 256, kSymbolsMax = 65536, kRelocationsMax = 1 << 20;

[[noreturn]] void bad(const std::string& text, const std::string& hint = {}) { throw Error(KFR_BAD_CODE, "check the image: " + text, hint); }

uint64_t page_down(uint64_t v) { return v & ~(kPage - 1); }
uint64_t page_up(uint64_t v) { return page_down(v + kPage - 1); }

class Checker {
 public:
  Checker(std::string_view image, const std::vector<std::string>& entries) : image_(image), entries_(entries) {}

  std::vector<uint64_t> run() {
    read_header();
    read_segments();
    read_dynamic();
    check_state();
    check_got();
    read_strings();
    size_t symbols = count_symbols();
    read_versions(symbols);
    read_symbols(symbols);
    if ((has(DT_PLTREL) || has(DT_JMPREL)) && need(DT_PLTREL, "kind of relocations") != DT_RELA) bad("its relocation table is malformed");
    read_relocations(DT_RELA, DT_RELASZ, symbols);
    read_relocations(DT_JMPREL, DT_PLTRELSZ, symbols);
    std::vector<uint64_t> offsets;
    for (const std::string& entry : entries_) {
      auto at = exported_.find(entry);
      if (at == exported_.end()) bad("no function " + ticked(entry) + " is exported", "declare the entry with KF_ENTRY");
      offsets.push_back(at->second);
    }
    return offsets;
  }

 private:
  // The bytes of one object of the file, copied out, so that nothing depends on alignment.
  template <class T>
  T read(uint64_t offset, const char* what) const {
    if (offset > image_.size() || image_.size() - offset < sizeof(T)) bad(std::string(what) + " lies outside the file");
    T value;
    std::memcpy(&value, image_.data() + offset, sizeof value);
    return value;
  }

  // The file offset of a range of addresses that lies in the file-backed part of one segment which is never written.
  uint64_t constant(uint64_t address, uint64_t bytes, const char* what) const {
    for (const Elf64_Phdr& s : loads_) {
      if (address < s.p_vaddr || address - s.p_vaddr > s.p_filesz || s.p_filesz - (address - s.p_vaddr) < bytes) continue;
      if (s.p_flags & PF_W) bad(std::string(what) + " lies in a writable segment");
      return s.p_offset + (address - s.p_vaddr);
    }
    bad(std::string(what) + " lies outside the segments");
  }

  void read_header() {
    if (image_.size() > kImageBytesMax) bad(std::to_string(image_.size()) + " bytes (expected at most " + std::to_string(kImageBytesMax) + ")");
    auto h = read<Elf64_Ehdr>(0, "the ELF header");
    if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) bad("it is no ELF file");
    bool x86 = h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_ident[EI_DATA] == ELFDATA2LSB && h.e_machine == EM_X86_64;
    if (!x86) bad("it is not for 64-bit x86-64");
    bool plain = h.e_ident[EI_VERSION] == EV_CURRENT && h.e_version == EV_CURRENT && h.e_ident[EI_ABIVERSION] == 0 &&
                 (h.e_ident[EI_OSABI] == ELFOSABI_SYSV || h.e_ident[EI_OSABI] == ELFOSABI_GNU);
    if (!plain) bad("it has an unknown ELF version or ABI");
    if (h.e_type != ET_DYN) bad("it is not a shared object", "compile with -shared");
    if (h.e_ehsize != sizeof(Elf64_Ehdr) || h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phnum == 0 || h.e_phnum > kHeadersMax || h.e_phoff % 8 != 0) {
      bad("its program headers are malformed");
    }
    for (size_t i = 0; i < h.e_phnum; ++i) {
      if (h.e_phoff > image_.size()) bad("a program header lies outside the file");
      headers_.push_back(read<Elf64_Phdr>(h.e_phoff + i * sizeof(Elf64_Phdr), "a program header"));
    }
    headers_at_ = h.e_phoff;
  }

  void read_segments() {
    bool stack = false;
    for (const Elf64_Phdr& h : headers_) {
      switch (h.p_type) {
        case PT_LOAD: add_load(h); break;
        case PT_DYNAMIC:
          if (dynamic_.p_type == PT_DYNAMIC) bad("it has two dynamic sections");
          dynamic_ = h;
          break;
        case PT_GNU_STACK:
          if (h.p_flags & PF_X) bad("it asks for an executable stack", "link with -z noexecstack");
          stack = true;
          break;
        case PT_GNU_RELRO:
          if (relro_.p_type == PT_GNU_RELRO) bad("it has two relro segments");
          relro_ = h;
          break;
        case PT_TLS: bad("it uses thread-local storage");
        case PT_INTERP: bad("it names a program interpreter");
        case PT_NULL: case PT_PHDR: case PT_NOTE: case PT_GNU_EH_FRAME: case PT_GNU_PROPERTY: case kStackTraces: break;
        default: bad("it has a segment of the unknown type " + std::to_string(h.p_type));
      }
    }
    if (loads_.empty()) bad("it has nothing to load");
    if (!stack) bad("it does not say that its stack is not executable", "link with -z noexecstack");
    if (dynamic_.p_type != PT_DYNAMIC) bad("it has no dynamic section");
    const Elf64_Phdr& front = loads_.front();  // the loader reads the program headers again from memory
    uint64_t headers_bytes = headers_.size() * sizeof(Elf64_Phdr);
    if (front.p_offset != 0 || (front.p_flags & PF_W) || front.p_filesz < headers_at_ + headers_bytes) bad("its first segment does not hold its headers");
    for (const Elf64_Phdr& h : headers_) {
      if (h.p_type == PT_PHDR && (h.p_offset != headers_at_ || h.p_filesz != headers_bytes)) bad("its program headers are malformed");
      bool inside = h.p_type == PT_NOTE || h.p_type == PT_GNU_EH_FRAME || h.p_type == PT_GNU_PROPERTY || h.p_type == PT_PHDR || h.p_type == kStackTraces;
      if (!inside) continue;
      if (constant(h.p_vaddr, h.p_memsz, "a note or header segment") != h.p_offset || h.p_filesz != h.p_memsz) bad("a note or header segment is malformed");
      if (h.p_type == PT_NOTE || h.p_type == PT_GNU_PROPERTY) read_notes(h);
    }
  }

  // The loader walks notes by the sizes that they state, and the properties inside one likewise.
  void read_notes(const Elf64_Phdr& h) const {
    uint64_t align = h.p_align == 8 ? 8 : 4, end = h.p_offset + h.p_filesz;
    auto up = [&](uint64_t v) { return (v + align - 1) & ~(align - 1); };
    for (uint64_t at = h.p_offset; at < end;) {
      auto note = read<Elf64_Nhdr>(at, "a note");
      uint64_t desc = up(at + sizeof note + note.n_namesz), next = up(desc + note.n_descsz);
      if (next > end) bad("a note is malformed");
      for (uint64_t p = desc; note.n_type == NT_GNU_PROPERTY_TYPE_0 && p < desc + note.n_descsz;) {
        p = up(p + 8 + read<uint32_t>(p + 4, "a note"));
        if (p > up(desc + note.n_descsz)) bad("a note is malformed");
      }
      at = next;
    }
  }

  void add_load(const Elf64_Phdr& h) {
    if ((h.p_flags & PF_W) && (h.p_flags & PF_X)) bad("a segment is writable and executable");
    if (!(h.p_flags & PF_R) || (h.p_flags & ~uint32_t{PF_R | PF_W | PF_X})) bad("a segment has unusual rights");
    bool aligned = h.p_align >= kPage && h.p_align <= kAlignMax && (h.p_align & (h.p_align - 1)) == 0 && (h.p_vaddr - h.p_offset) % h.p_align == 0;
    if (!aligned) bad("a segment is badly aligned");
    if (h.p_memsz == 0 || h.p_filesz > h.p_memsz || h.p_vaddr > kSpanMax || h.p_memsz > kSpanMax - h.p_vaddr) bad("a segment has a bad size or address");
    if (h.p_offset > image_.size() || h.p_filesz > image_.size() - h.p_offset) bad("a segment lies outside the file");
    if (h.p_memsz > h.p_filesz && !(h.p_flags & PF_W)) bad("a read-only segment is longer than the file says");
    if (!loads_.empty() && page_down(h.p_vaddr) < page_up(loads_.back().p_vaddr + loads_.back().p_memsz)) bad("segments overlap or are out of order");
    loads_.push_back(h);
  }

  // Everything writable must turn read-only after relocation: no state from call to call, and none to write code addresses into.
  // The loader protects whole pages, down to the last one that the relro segment fills.
  void check_state() const {
    const Elf64_Phdr* writable = nullptr;
    for (const Elf64_Phdr& s : loads_) {
      if (!(s.p_flags & PF_W)) continue;
      if (writable != nullptr) bad("it has several writable segments (expected one)", "make tables const and keep no state between calls");
      writable = &s;
    }
    bool relro = relro_.p_type == PT_GNU_RELRO;
    if (writable == nullptr) {
      if (relro) bad("its relro segment covers nothing writable");
      return;
    }
    uint64_t begin = page_down(writable->p_vaddr), end = writable->p_vaddr + writable->p_memsz;
    bool covered = relro && relro_.p_vaddr >= begin && relro_.p_vaddr <= writable->p_vaddr && relro_.p_memsz <= kSpanMax &&
                   page_down(relro_.p_vaddr + relro_.p_memsz) >= end && relro_.p_vaddr + relro_.p_memsz <= page_up(end);
    if (!covered) bad("it has writable variables", "make tables const and keep no state between calls; link with -z relro -z now");
  }

  void read_dynamic() {
    const Elf64_Phdr* home = nullptr;
    for (const Elf64_Phdr& s : loads_) {
      if (dynamic_.p_vaddr >= s.p_vaddr && dynamic_.p_vaddr - s.p_vaddr <= s.p_filesz && dynamic_.p_filesz <= s.p_filesz - (dynamic_.p_vaddr - s.p_vaddr)) home = &s;
    }
    if (home == nullptr || dynamic_.p_vaddr % 8 != 0) bad("its dynamic section lies outside the segments");
    uint64_t offset = home->p_offset + (dynamic_.p_vaddr - home->p_vaddr);
    size_t count = std::min<size_t>(dynamic_.p_filesz / sizeof(Elf64_Dyn), kDynamicMax);
    for (size_t i = 0; i < count; ++i) {
      auto d = read<Elf64_Dyn>(offset + i * sizeof(Elf64_Dyn), "the dynamic section");
      if (d.d_tag == DT_NULL) return;
      take_tag(d.d_tag, d.d_un.d_val);
    }
    bad("its dynamic section does not end");
  }

  void take_tag(int64_t tag, uint64_t value) {
    switch (tag) {
      case DT_NEEDED: needed_.push_back(value); return;
      case DT_INIT: case DT_INIT_ARRAY: case DT_INIT_ARRAYSZ: case DT_PREINIT_ARRAY: case DT_PREINIT_ARRAYSZ:
        bad("it has a static constructor", "initialise tables at compile time; compile with -nostartfiles");
      case DT_FINI: case DT_FINI_ARRAY: case DT_FINI_ARRAYSZ: bad("it has a static destructor", "compile with -nostartfiles");
      case DT_TEXTREL: bad("it relocates its code", "compile with -fPIC");
      case DT_SONAME: bad("it names itself (DT_SONAME)");
      case DT_RPATH: case DT_RUNPATH: bad("it brings a library search path");
      case DT_FLAGS:
        if (value & ~uint64_t{DF_BIND_NOW}) bad("it has dynamic flags other than BIND_NOW");
        break;
      case DT_FLAGS_1:
        if (value & ~uint64_t{DF_1_NOW}) bad("it has dynamic flags other than NOW");
        break;
      case DT_HASH: case DT_GNU_HASH: case DT_STRTAB: case DT_SYMTAB: case DT_STRSZ: case DT_SYMENT: case DT_PLTGOT: case DT_PLTRELSZ: case DT_PLTREL:
      case DT_JMPREL: case DT_RELA: case DT_RELASZ: case DT_RELAENT: case DT_RELACOUNT: case DT_VERSYM: case DT_VERNEED: case DT_VERNEEDNUM: case DT_BIND_NOW:
        break;
      default: bad("its dynamic section has the tag " + std::to_string(tag) + ", which no kernel needs");
    }
    if (!tags_.emplace(tag, value).second) bad("its dynamic section has the tag " + std::to_string(tag) + " twice");
  }

  uint64_t need(int64_t tag, const char* what) const {
    auto at = tags_.find(tag);
    if (at == tags_.end()) bad(std::string("it has no ") + what);
    return at->second;
  }
  bool has(int64_t tag) const { return tags_.contains(tag); }

  // The loader keeps the address of the global offset table; it may write there when it binds lazily.
  void check_got() const {
    if (!has(DT_PLTGOT)) return;
    uint64_t at = need(DT_PLTGOT, "offset table");
    bool inside = std::any_of(loads_.begin(), loads_.end(), [&](const Elf64_Phdr& h) {
      return (h.p_flags & PF_W) && at >= h.p_vaddr && at - h.p_vaddr <= h.p_memsz;
    });
    if (!inside) bad("its offset table lies outside the writable data");
  }

  void read_strings() {
    uint64_t bytes = need(DT_STRSZ, "string table size");
    if (bytes == 0) bad("its string table is empty");
    uint64_t offset = constant(need(DT_STRTAB, "string table"), bytes, "the string table");
    strings_ = image_.substr(offset, bytes);
    if (strings_.back() != '\0') bad("its string table does not end");
    static const std::set<std::string_view> allowed = {"libm.so.6", "libc.so.6", "libgcc_s.so.1", "libstdc++.so.6"};
    for (uint64_t at : needed_) {
      std::string_view name = text(at);
      if (!allowed.contains(name)) bad("it needs the library " + ticked(name) + " (expected libm, libc, libgcc_s or libstdc++)");
    }
  }

  std::string_view text(uint64_t at) const {
    if (at >= strings_.size()) bad("a name lies outside the string table");
    return strings_.substr(at, strings_.find('\0', at) - at);
  }

  // The number of symbols, out of the GNU hash table that the loader will walk.
  size_t count_symbols() const {
    uint64_t table = need(DT_GNU_HASH, "GNU hash table");
    uint64_t at = constant(table, 16, "the hash table");
    auto buckets = read<uint32_t>(at, "the hash table"), first = read<uint32_t>(at + 4, "the hash table");
    auto bloom = read<uint32_t>(at + 8, "the hash table");
    auto shift = read<uint32_t>(at + 12, "the hash table");
    if (buckets == 0 || buckets > kSymbolsMax || first == 0 || first > kSymbolsMax || bloom == 0 || bloom > kSymbolsMax || (bloom & (bloom - 1)) || shift >= 32) {
      bad("its hash table is malformed");
    }
    uint64_t bucket_at = table + 16 + uint64_t{bloom} * 8, chain_at = bucket_at + uint64_t{buckets} * 4;
    constant(table, chain_at - table, "the hash table");
    uint64_t count = first;
    for (uint32_t b = 0; b < buckets; ++b) {
      auto symbol = read<uint32_t>(constant(bucket_at + uint64_t{b} * 4, 4, "the hash table"), "the hash table");
      if (symbol == 0) continue;
      if (symbol < first) bad("its hash table is malformed");
      for (uint64_t s = symbol;; ++s) {
        if (s >= kSymbolsMax) bad("it has too many symbols");
        auto chain = read<uint32_t>(constant(chain_at + (s - first) * 4, 4, "the hash table"), "the hash table");
        count = std::max(count, s + 1);
        if (chain & 1) break;
      }
    }
    return count;
  }

  void read_versions(size_t symbols) const {
    if (has(DT_VERNEED) != has(DT_VERSYM)) bad("it has half a version table");
    std::set<uint32_t> known = {0, 1};
    if (has(DT_VERNEED)) {
      uint64_t at = need(DT_VERNEED, "version table"), files = need(DT_VERNEEDNUM, "version count");
      if (files == 0 || files > kHeadersMax) bad("its version table is malformed");
      for (uint64_t i = 0; i < files; ++i) {
        auto need_entry = read<Elf64_Verneed>(constant(at, sizeof(Elf64_Verneed), "the version table"), "the version table");
        std::string_view file = text(need_entry.vn_file);  // the loader aborts the process when it is not loaded
        if (std::none_of(needed_.begin(), needed_.end(), [&](uint64_t n) { return text(n) == file; })) bad("its versions name a library that it does not need");
        uint64_t aux = at + need_entry.vn_aux;
        for (uint32_t k = 0; k < need_entry.vn_cnt; ++k) {
          auto version = read<Elf64_Vernaux>(constant(aux, sizeof(Elf64_Vernaux), "the version table"), "the version table");
          text(version.vna_name);
          uint32_t index = version.vna_other & 0x7FFFu;  // 0 and 1 are the loader's own
          known.insert(index);
          bool last = k + 1 == need_entry.vn_cnt;
          if (index < 2 || need_entry.vn_version != VER_NEED_CURRENT || (version.vna_next == 0) != last) bad("its version table is malformed");
          aux += version.vna_next;
        }
        bool last = i + 1 == files;
        if ((need_entry.vn_next == 0) != last || need_entry.vn_cnt == 0) bad("its version table is malformed");
        at += need_entry.vn_next;
      }
    }
    if (!has(DT_VERSYM)) return;
    uint64_t at = constant(need(DT_VERSYM, "version symbols"), symbols * 2, "the version symbols");
    for (size_t i = 0; i < symbols; ++i) {
      uint32_t index = read<uint16_t>(at + i * 2, "the version symbols") & 0x7FFFu;
      if (!known.contains(index)) bad("a symbol has an unknown version");
    }
  }

  void read_symbols(size_t symbols) {
    if (need(DT_SYMENT, "symbol size") != sizeof(Elf64_Sym)) bad("its symbol table is malformed");
    uint64_t at = constant(need(DT_SYMTAB, "symbol table"), symbols * sizeof(Elf64_Sym), "the symbol table");
    for (size_t i = 1; i < symbols; ++i) {
      auto s = read<Elf64_Sym>(at + i * sizeof(Elf64_Sym), "the symbol table");
      std::string_view name = text(s.st_name);
      unsigned kind = ELF64_ST_TYPE(s.st_info), binding = ELF64_ST_BIND(s.st_info), visibility = ELF64_ST_VISIBILITY(s.st_other);
      if (kind == STT_GNU_IFUNC) bad("symbol " + ticked(name) + " is an indirect function (it would run while loading)");
      if (kind == STT_TLS) bad("symbol " + ticked(name) + " is thread-local");
      if (kind > STT_FILE || binding > STB_WEAK) bad("symbol " + ticked(name) + " is of an unusual kind");
      if (s.st_shndx == SHN_UNDEF) {
        if (!allowed_import(name)) bad("it imports " + ticked(name), "kernels may import libm functions and memcpy, memmove, memset, memcmp only");
      } else if (binding != STB_LOCAL && (visibility == STV_DEFAULT || visibility == STV_PROTECTED)) {
        add_export(s, name, kind);
      } else {
        bad("symbol " + ticked(name) + " is neither an import nor an entry");
      }
    }
  }

  void add_export(const Elf64_Sym& s, std::string_view name, unsigned kind) {
    if (std::find(entries_.begin(), entries_.end(), name) == entries_.end()) {
      bad("it exports " + ticked(name) + ", which is no entry of the spec", "compile with -fvisibility=hidden");
    }
    if (kind != STT_FUNC || s.st_shndx == SHN_ABS || s.st_shndx == SHN_COMMON) bad("entry " + ticked(name) + " is no function");
    bool code = std::any_of(loads_.begin(), loads_.end(), [&](const Elf64_Phdr& h) {
      return (h.p_flags & PF_X) && s.st_value >= h.p_vaddr && s.st_value - h.p_vaddr < h.p_filesz;
    });
    if (!code) bad("entry " + ticked(name) + " lies outside the code");
    if (!exported_.emplace(name, s.st_value).second) bad("it exports " + ticked(name) + " twice");
  }

  void read_relocations(int64_t table_tag, int64_t size_tag, size_t symbols) const {
    if (!has(table_tag) && !has(size_tag)) return;
    uint64_t table = need(table_tag, "relocation table"), bytes = need(size_tag, "relocation table size");
    if (table_tag == DT_RELA && need(DT_RELAENT, "relocation size") != sizeof(Elf64_Rela)) bad("its relocation table is malformed");
    size_t count = bytes / sizeof(Elf64_Rela);
    if (bytes % sizeof(Elf64_Rela) || count > kRelocationsMax) bad("its relocation table is malformed");
    uint64_t relative = table_tag == DT_RELA && has(DT_RELACOUNT) ? need(DT_RELACOUNT, "") : 0;  // the loader does not look at the kind of these
    if (relative > count) bad("its relocation table is malformed");
    uint64_t at = constant(table, bytes, "the relocation table");
    for (size_t i = 0; i < count; ++i) {
      auto r = read<Elf64_Rela>(at + i * sizeof(Elf64_Rela), "the relocation table");
      uint64_t kind = ELF64_R_TYPE(r.r_info), symbol = ELF64_R_SYM(r.r_info);
      if (kind == R_X86_64_IRELATIVE) bad("it has an indirect function (it would run while loading)");
      bool known = kind == R_X86_64_RELATIVE || (i >= relative && (kind == R_X86_64_64 || kind == R_X86_64_GLOB_DAT || kind == R_X86_64_JUMP_SLOT));
      if (!known) bad("it has a relocation of the kind " + std::to_string(kind));
      if (symbol >= symbols || (kind != R_X86_64_RELATIVE && symbol == 0)) bad("a relocation names a symbol that is not there");
      if (!relocatable(r.r_offset)) bad("a relocation points outside the writable data");
    }
  }

  bool relocatable(uint64_t address) const {
    if (address < dynamic_.p_vaddr + std::max(dynamic_.p_memsz, dynamic_.p_filesz) && address + 8 > dynamic_.p_vaddr) return false;
    return std::any_of(loads_.begin(), loads_.end(), [&](const Elf64_Phdr& h) {
      return (h.p_flags & PF_W) && address >= h.p_vaddr && h.p_memsz >= 8 && address - h.p_vaddr <= h.p_memsz - 8;
    });
  }

  std::string_view image_;
  const std::vector<std::string>& entries_;
  uint64_t headers_at_ = 0;
  std::vector<Elf64_Phdr> headers_, loads_;
  Elf64_Phdr dynamic_{}, relro_{};
  std::map<int64_t, uint64_t> tags_;
  std::vector<uint64_t> needed_;
  std::string_view strings_;
  std::map<std::string, uint64_t, std::less<>> exported_;
};

}  // namespace

std::vector<uint64_t> check_host_image(std::string_view image, const std::vector<std::string>& entries) { return Checker(image, entries).run(); }

}  // namespace kf
