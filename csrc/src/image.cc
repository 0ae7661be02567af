// image.cc: the check of a host image. It believes only what the loader believes: program headers and the dynamic section, by address.
//
// Why so strict: the loader trusts an image. It follows tables without bounds, writes relocations wherever they point, and runs what the
// dynamic section names. So every table must lie inside a read-only segment, every relocation inside a writable one and outside the dynamic
// section, and only tags, relocation kinds and segments that our compile command produces are let through.
// Beyond that: no writable memory after relocation (no state between calls), and nothing exported but the entries.
#include "image.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "error.h"
#include "layout.h"

namespace kf {
namespace {

constexpr size_t kDynamicMax = 256, kSymbolsMax = 65536, kRelocationsMax = 1 << 20, kLibrariesMax = 32;

constexpr std::string_view kLibraries[] = {"libm.so.6", "libc.so.6", "libgcc_s.so.1", "libstdc++.so.6"};

constexpr int64_t kTags[] = {DT_HASH,     DT_GNU_HASH, DT_STRTAB,     DT_SYMTAB,   DT_STRSZ,  DT_SYMENT,  DT_PLTGOT,
                             DT_PLTRELSZ, DT_PLTREL,   DT_JMPREL,     DT_RELA,     DT_RELASZ, DT_RELAENT, DT_RELACOUNT,
                             DT_VERSYM,   DT_VERNEED,  DT_VERNEEDNUM, DT_BIND_NOW, DT_FLAGS,  DT_FLAGS_1};

template <class List, class Item>
bool in(const List& list, const Item& item) {
  return std::find(std::begin(list), std::end(list), item) != std::end(list);
}

class Checker {
 public:
  Checker(std::string_view image, const std::vector<std::string>& entries) : layout_(image), entries_(entries) {}

  std::vector<uint64_t> run() {
    read_dynamic();
    layout_.check_state();
    // The loader keeps the address of the global offset table; it would write there if it bound lazily.
    if (has(DT_PLTGOT) && !layout_.in_writable(need(DT_PLTGOT, ""))) bad_image("its offset table lies outside the writable data");
    read_strings();
    size_t symbols = count_symbols();
    read_versions(symbols);
    read_symbols(symbols);
    bool rela = !(has(DT_PLTREL) || has(DT_JMPREL)) || need(DT_PLTREL, "kind of relocations") == DT_RELA;
    if (!rela) bad_image("its relocation table is malformed");
    read_relocations(DT_RELA, DT_RELASZ, symbols);
    read_relocations(DT_JMPREL, DT_PLTRELSZ, symbols);
    std::vector<uint64_t> offsets;
    for (const std::string& entry : entries_) {
      auto at = exported_.find(entry);
      if (at == exported_.end()) bad_image("no function " + ticked(entry) + " is exported", "declare the entry with KF_ENTRY");
      offsets.push_back(at->second);
    }
    return offsets;
  }

 private:
  void read_dynamic() {
    uint64_t offset = layout_.dynamic_offset();
    size_t count = std::min<size_t>(layout_.dynamic_bytes() / sizeof(Elf64_Dyn), kDynamicMax);
    for (size_t i = 0; i < count; ++i) {
      auto d = layout_.read<Elf64_Dyn>(offset + i * sizeof(Elf64_Dyn), "the dynamic section");
      if (d.d_tag == DT_NULL) return;
      take_tag(d.d_tag, d.d_un.d_val);
    }
    bad_image("its dynamic section does not end");
  }

  void take_tag(int64_t tag, uint64_t value) {
    constexpr int64_t kStart[] = {DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ};
    constexpr int64_t kEnd[] = {DT_FINI, DT_FINI_ARRAY, DT_FINI_ARRAYSZ};
    if (tag == DT_NEEDED) {
      needed_.push_back(value);
      return;
    }
    if (in(kStart, tag)) bad_image("it has a static constructor", "initialise tables at compile time; compile with -nostartfiles");
    if (in(kEnd, tag)) bad_image("it has a static destructor", "compile with -nostartfiles");
    if (tag == DT_TEXTREL) bad_image("it relocates its code", "compile with -fPIC");
    if (tag == DT_SONAME) bad_image("it names itself (DT_SONAME)");  // another library of that name would then be found loaded
    if (tag == DT_RPATH || tag == DT_RUNPATH) bad_image("it brings a library search path");
    if (!in(kTags, tag)) bad_image("its dynamic section has the tag " + std::to_string(tag) + ", which no kernel needs");
    if (tag == DT_FLAGS && (value & ~uint64_t{DF_BIND_NOW})) bad_image("it has dynamic flags other than BIND_NOW");
    if (tag == DT_FLAGS_1 && (value & ~uint64_t{DF_1_NOW})) bad_image("it has dynamic flags other than NOW");
    if (!tags_.emplace(tag, value).second) bad_image("its dynamic section has the tag " + std::to_string(tag) + " twice");
  }

  bool has(int64_t tag) const { return tags_.contains(tag); }
  uint64_t need(int64_t tag, const char* what) const {
    auto at = tags_.find(tag);
    if (at == tags_.end()) bad_image(std::string("it has no ") + what);
    return at->second;
  }

  void read_strings() {
    uint64_t bytes = need(DT_STRSZ, "string table size");
    if (bytes == 0) bad_image("its string table is empty");
    strings_ = layout_.bytes(layout_.constant(need(DT_STRTAB, "string table"), bytes, "the string table"), bytes);
    if (strings_.back() != '\0') bad_image("its string table does not end");
    for (uint64_t at : needed_) {
      if (!in(kLibraries, text(at)))
        bad_image("it needs the library " + ticked(text(at)) + " (expected libm, libc, libgcc_s or libstdc++)");
    }
  }

  std::string_view text(uint64_t at) const {
    if (at >= strings_.size()) bad_image("a name lies outside the string table");
    return strings_.substr(at, strings_.find('\0', at) - at);
  }

  // An object of a table in constant memory, by address.
  template <class T>
  T at(uint64_t address, const char* what) const {
    return layout_.read<T>(layout_.constant(address, sizeof(T), what), what);
  }

  // The number of symbols, out of the GNU hash table that the loader will walk.
  size_t count_symbols() const {
    const char* const what = "the hash table";
    uint64_t table = need(DT_GNU_HASH, "GNU hash table");
    layout_.constant(table, 16, what);
    auto buckets = at<uint32_t>(table, what), first = at<uint32_t>(table + 4, what), bloom = at<uint32_t>(table + 8, what);
    bool sane = buckets > 0 && buckets <= kSymbolsMax && first > 0 && first <= kSymbolsMax && at<uint32_t>(table + 12, what) < 32;
    if (!sane || bloom == 0 || bloom > kSymbolsMax || (bloom & (bloom - 1))) bad_image("its hash table is malformed");
    uint64_t bucket_at = table + 16 + uint64_t{bloom} * 8, chain_at = bucket_at + uint64_t{buckets} * 4;
    layout_.constant(table, chain_at - table, what);
    uint64_t count = first;
    for (uint32_t b = 0; b < buckets; ++b) {
      uint64_t symbol = at<uint32_t>(bucket_at + uint64_t{b} * 4, what);
      if (symbol == 0) continue;
      if (symbol < first) bad_image("its hash table is malformed");
      while ((at<uint32_t>(chain_at + (symbol - first) * 4, what) & 1) == 0) {
        if (++symbol >= kSymbolsMax) bad_image("it has too many symbols");
      }
      count = std::max(count, symbol + 1);
    }
    return count;
  }

  void read_versions(size_t symbols) const {
    if (has(DT_VERNEED) != has(DT_VERSYM)) bad_image("it has half a version table");
    if (!has(DT_VERNEED)) return;
    std::set<uint32_t> known = {0, 1};  // the loader's own: local and global
    uint64_t entry = need(DT_VERNEED, ""), files = need(DT_VERNEEDNUM, "version count");
    if (files == 0 || files > kLibrariesMax) bad_image("its version table is malformed");
    for (uint64_t i = 0; i < files; ++i) {
      auto file = at<Elf64_Verneed>(entry, "the version table");
      // The loader aborts the process when this library is not loaded.
      bool loaded = std::any_of(needed_.begin(), needed_.end(), [&](uint64_t n) { return text(n) == text(file.vn_file); });
      if (!loaded) bad_image("its versions name a library that it does not need");
      read_versions_of(file, entry + file.vn_aux, &known);
      if (file.vn_version != VER_NEED_CURRENT || (file.vn_next == 0) != (i + 1 == files)) bad_image("its version table is malformed");
      entry += file.vn_next;
    }
    uint64_t table = need(DT_VERSYM, "");
    layout_.constant(table, symbols * 2, "the table of symbol versions");
    for (size_t i = 0; i < symbols; ++i) {
      uint32_t index = at<uint16_t>(table + i * 2, "the table of symbol versions") & 0x7FFFu;
      if (!known.contains(index)) bad_image("a symbol has an unknown version");
    }
  }

  void read_versions_of(const Elf64_Verneed& file, uint64_t entry, std::set<uint32_t>* known) const {
    if (file.vn_cnt == 0) bad_image("its version table is malformed");
    for (uint32_t k = 0; k < file.vn_cnt; ++k) {
      auto version = at<Elf64_Vernaux>(entry, "the version table");
      text(version.vna_name);
      uint32_t index = version.vna_other & 0x7FFFu;
      if (index < 2 || (version.vna_next == 0) != (k + 1 == file.vn_cnt)) bad_image("its version table is malformed");
      known->insert(index);
      entry += version.vna_next;
    }
  }

  void read_symbols(size_t symbols) {
    if (need(DT_SYMENT, "symbol size") != sizeof(Elf64_Sym)) bad_image("its symbol table is malformed");
    uint64_t table = need(DT_SYMTAB, "symbol table");
    layout_.constant(table, symbols * sizeof(Elf64_Sym), "the symbol table");
    for (size_t i = 1; i < symbols; ++i) {
      auto s = at<Elf64_Sym>(table + i * sizeof(Elf64_Sym), "the symbol table");
      std::string_view name = text(s.st_name);
      unsigned kind = ELF64_ST_TYPE(s.st_info), binding = ELF64_ST_BIND(s.st_info), visibility = ELF64_ST_VISIBILITY(s.st_other);
      if (kind == STT_GNU_IFUNC) bad_image("symbol " + ticked(name) + " is an indirect function (it would run while loading)");
      if (kind == STT_TLS) bad_image("symbol " + ticked(name) + " is thread-local");
      if (kind > STT_FILE || binding > STB_WEAK) bad_image("symbol " + ticked(name) + " is of an unusual kind");
      if (s.st_shndx == SHN_UNDEF) {
        if (!allowed_import(name)) {
          bad_image("it imports " + ticked(name), "kernels may import libm functions and memcpy, memmove, memset, memcmp only");
        }
      } else if (binding != STB_LOCAL && (visibility == STV_DEFAULT || visibility == STV_PROTECTED)) {
        add_export(s, name, kind);
      } else {
        bad_image("symbol " + ticked(name) + " is neither an import nor an entry");
      }
    }
  }

  void add_export(const Elf64_Sym& s, std::string_view name, unsigned kind) {
    if (!in(entries_, name))
      bad_image("it exports " + ticked(name) + ", which is no entry of the spec", "compile with -fvisibility=hidden");
    if (kind != STT_FUNC || s.st_shndx == SHN_ABS || s.st_shndx == SHN_COMMON) bad_image("entry " + ticked(name) + " is no function");
    if (!layout_.is_code(s.st_value)) bad_image("entry " + ticked(name) + " lies outside the code");
    if (!exported_.emplace(name, s.st_value).second) bad_image("it exports " + ticked(name) + " twice");
  }

  void read_relocations(int64_t table_tag, int64_t size_tag, size_t symbols) const {
    if (!has(table_tag) && !has(size_tag)) return;
    uint64_t table = need(table_tag, "relocation table"), bytes = need(size_tag, "relocation table size"), relative = 0;
    bool sane = bytes % sizeof(Elf64_Rela) == 0 && bytes / sizeof(Elf64_Rela) <= kRelocationsMax;
    if (table_tag == DT_RELA) {
      sane = sane && need(DT_RELAENT, "relocation size") == sizeof(Elf64_Rela);
      if (has(DT_RELACOUNT)) relative = need(DT_RELACOUNT, "");  // the loader does not look at the kind of these first ones
    }
    size_t count = bytes / sizeof(Elf64_Rela);
    if (!sane || relative > count) bad_image("its relocation table is malformed");
    layout_.constant(table, bytes, "the relocation table");
    for (size_t i = 0; i < count; ++i) {
      auto r = at<Elf64_Rela>(table + i * sizeof(Elf64_Rela), "the relocation table");
      uint64_t kind = ELF64_R_TYPE(r.r_info), symbol = ELF64_R_SYM(r.r_info);
      if (kind == R_X86_64_IRELATIVE) bad_image("it has an indirect function (it would run while loading)");
      bool binds = kind == R_X86_64_64 || kind == R_X86_64_GLOB_DAT || kind == R_X86_64_JUMP_SLOT;
      if (kind != R_X86_64_RELATIVE && (!binds || i < relative)) bad_image("it has a relocation of the kind " + std::to_string(kind));
      if (symbol >= symbols || (binds && symbol == 0)) bad_image("a relocation names a symbol that is not there");
      if (!layout_.is_relocatable(r.r_offset, 8)) bad_image("a relocation points outside the writable data");
    }
  }

  Layout layout_;
  const std::vector<std::string>& entries_;
  std::map<int64_t, uint64_t> tags_;
  std::vector<uint64_t> needed_;
  std::string_view strings_;
  std::map<std::string, uint64_t, std::less<>> exported_;
};

}  // namespace

bool& images_unchecked() {
  static bool unchecked = false;
  return unchecked;
}

std::vector<uint64_t> check_host_image(std::string_view image, const std::vector<std::string>& entries) {
  return Checker(image, entries).run();
}

}  // namespace kf
