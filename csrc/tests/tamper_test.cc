// tamper_test.cc: images that no compiler makes: one field of a good image changed at a time, every truncation, every byte flipped.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "error.h"
#include "image.h"
#include "support.h"

namespace kf {
namespace {

using namespace testing;

const std::string& good() {
  static const std::string image = build(R"(
static const float* const rows[2] = {(const float[]){1, 2}, (const float[]){3, 4}};
KF_ENTRY void kf_main(int64_t b, int64_t, const kf_arg* a) { *static_cast<float*>(a[0].p) = expf(rows[b & 1][0]); }
)");
  return image;
}

std::string check(const std::string& image) {
  try {
    check_host_image(image, {"kf_main"});
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), KFR_BAD_CODE) << e.text();
    return e.text();
  }
}

// A writable view of the good image by its structures. File offsets equal addresses in its read-only first segment.
class Editor {
 public:
  std::string image = good();
  template <class T>
  T& at(uint64_t offset) {
    return *reinterpret_cast<T*>(image.data() + offset);
  }
  Elf64_Ehdr& header() { return at<Elf64_Ehdr>(0); }
  Elf64_Phdr& segment(uint32_t type, uint32_t flags = 0) {
    for (int i = 0; i < header().e_phnum; ++i) {
      auto& h = at<Elf64_Phdr>(header().e_phoff + static_cast<uint64_t>(i) * sizeof(Elf64_Phdr));
      if (h.p_type == type && (flags == 0 || h.p_flags == flags)) return h;
    }
    throw std::runtime_error("no such segment");
  }
  Elf64_Dyn& dynamic(int64_t tag) {
    for (uint64_t at_offset = segment(PT_DYNAMIC).p_offset;; at_offset += sizeof(Elf64_Dyn)) {
      auto& d = at<Elf64_Dyn>(at_offset);
      if (d.d_tag == tag) return d;
      if (d.d_tag == DT_NULL) throw std::runtime_error("no such tag");
    }
  }
  Elf64_Sym& symbol(size_t i) { return at<Elf64_Sym>(dynamic(DT_SYMTAB).d_un.d_val + i * sizeof(Elf64_Sym)); }
  Elf64_Rela& relocation(int64_t tag) { return at<Elf64_Rela>(dynamic(tag).d_un.d_val); }
  uint32_t& hash_word(size_t i) { return at<uint32_t>(dynamic(DT_GNU_HASH).d_un.d_val + i * 4); }
  uint16_t& version(size_t i) { return at<uint16_t>(dynamic(DT_VERSYM).d_un.d_val + i * 2); }
  Elf64_Verneed& need() { return at<Elf64_Verneed>(dynamic(DT_VERNEED).d_un.d_val); }
  Elf64_Vernaux& aux() { return at<Elf64_Vernaux>(dynamic(DT_VERNEED).d_un.d_val + need().vn_aux); }
  size_t entry_index() {
    for (size_t i = 1;; ++i) {
      if (symbol(i).st_shndx != SHN_UNDEF) return i;
    }
  }
};

struct Change {
  const char* what;
  std::function<void(Editor&)> edit;
  const char* expected;
};
constexpr uint64_t kFar = 0x7fff00000000;

const Change kChanges[] = {
    {"class", [](Editor& e) { e.header().e_ident[EI_CLASS] = ELFCLASS32; }, "not for 64-bit"},
    {"machine", [](Editor& e) { e.header().e_machine = EM_AARCH64; }, "not for 64-bit"},
    {"abi", [](Editor& e) { e.header().e_ident[EI_OSABI] = ELFOSABI_FREEBSD; }, "unknown ELF version or ABI"},
    {"type", [](Editor& e) { e.header().e_type = ET_EXEC; }, "not a shared object"},
    {"phnum", [](Editor& e) { e.header().e_phnum = 0; }, "program headers are malformed"},
    {"phnum_many", [](Editor& e) { e.header().e_phnum = 33; }, "program headers are malformed"},
    {"phentsize", [](Editor& e) { e.header().e_phentsize = 64; }, "program headers are malformed"},
    {"phoff", [](Editor& e) { e.header().e_phoff = UINT64_MAX - 7; }, "outside the file"},
    {"phoff_odd", [](Editor& e) { e.header().e_phoff += 1; }, "program headers are malformed"},
    {"load_rwx", [](Editor& e) { e.segment(PT_LOAD, PF_R | PF_W).p_flags |= PF_X; }, "writable and executable"},
    {"load_unreadable", [](Editor& e) { e.segment(PT_LOAD, PF_R | PF_X).p_flags = PF_X; }, "unusual rights"},
    {"load_filesz", [](Editor& e) { e.segment(PT_LOAD, PF_R | PF_X).p_filesz = e.segment(PT_LOAD, PF_R | PF_X).p_memsz = 1 << 20; },
     "outside the file"},
    {"load_memsz", [](Editor& e) { e.segment(PT_LOAD, PF_R).p_memsz = kFar; }, "bad size or address"},
    {"load_longer", [](Editor& e) { e.segment(PT_LOAD, PF_R).p_memsz += 8; }, "longer than the file says"},
    {"load_vaddr", [](Editor& e) { e.segment(PT_LOAD, PF_R | PF_W).p_vaddr = UINT64_MAX - 0xfff; }, "badly aligned"},
    {"load_align", [](Editor& e) { e.segment(PT_LOAD, PF_R).p_align = uint64_t{1} << 40; }, "badly aligned"},
    {"load_align_odd", [](Editor& e) { e.segment(PT_LOAD, PF_R).p_align = 4097; }, "badly aligned"},
    {"load_order", [](Editor& e) { e.segment(PT_LOAD, PF_R | PF_X).p_vaddr = 0; }, "overlap or are out of order"},
    {"stack_gone", [](Editor& e) { e.segment(PT_GNU_STACK).p_type = PT_NULL; }, "does not say that its stack"},
    {"stack_exec", [](Editor& e) { e.segment(PT_GNU_STACK).p_flags |= PF_X; }, "executable stack"},
    {"relro_gone", [](Editor& e) { e.segment(PT_GNU_RELRO).p_type = PT_NULL; }, "writable variables"},
    {"relro_short", [](Editor& e) { e.segment(PT_GNU_RELRO).p_memsz -= 8; }, "writable variables"},
    {"relro_long", [](Editor& e) { e.segment(PT_GNU_RELRO).p_memsz += 0x10000; }, "writable variables"},
    {"relro_far", [](Editor& e) { e.segment(PT_GNU_RELRO).p_vaddr = kFar; }, "writable variables"},
    {"interp", [](Editor& e) { e.segment(PT_NOTE).p_type = PT_INTERP; }, "program interpreter"},
    {"tls", [](Editor& e) { e.segment(PT_NOTE).p_type = PT_TLS; }, "thread-local"},
    {"unknown_segment", [](Editor& e) { e.segment(PT_NOTE).p_type = 0x12345; }, "unknown type"},
    {"two_dynamics", [](Editor& e) { e.segment(PT_NOTE).p_type = PT_DYNAMIC; }, "two dynamic sections"},
    {"no_dynamic", [](Editor& e) { e.segment(PT_DYNAMIC).p_type = PT_NULL; }, "no dynamic section"},
    {"note_far", [](Editor& e) { e.segment(PT_NOTE).p_vaddr = kFar; }, "note or header segment"},
    {"eh_frame_far", [](Editor& e) { e.segment(PT_GNU_EH_FRAME).p_memsz = kFar; }, "note or header segment"},
    {"note_name", [](Editor& e) { e.at<Elf64_Nhdr>(e.segment(PT_NOTE).p_offset).n_namesz = 0xfffffff0; }, "a note is malformed"},
    {"note_content", [](Editor& e) { e.at<Elf64_Nhdr>(e.segment(PT_NOTE).p_offset).n_descsz = 0xfffffff0; }, "a note is malformed"},
    {"note_property",
     [](Editor& e) {
       auto& n = e.at<Elf64_Nhdr>(e.segment(PT_NOTE).p_offset);
       n.n_type = NT_GNU_PROPERTY_TYPE_0;
     },
     "a note is malformed"},
    {"phdr_elsewhere", [](Editor& e) { e.segment(PT_NOTE).p_type = PT_PHDR; }, "program headers are malformed"},
    {"dynamic_far", [](Editor& e) { e.segment(PT_DYNAMIC).p_vaddr = kFar; }, "dynamic section lies outside"},
    {"dynamic_endless", [](Editor& e) { e.segment(PT_DYNAMIC).p_filesz = 5 * sizeof(Elf64_Dyn); }, "does not end"},
    {"tag_init", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_tag = DT_INIT; }, "static constructor"},
    {"tag_init_array", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_tag = DT_INIT_ARRAY; }, "static constructor"},
    {"tag_preinit", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_tag = DT_PREINIT_ARRAY; }, "static constructor"},
    {"tag_fini", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_tag = DT_FINI; }, "static destructor"},
    {"tag_textrel", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_tag = DT_TEXTREL; }, "relocates its code"},
    {"tag_audit", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_tag = DT_DEPAUDIT; }, "which no kernel needs"},
    {"tag_filter", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_tag = DT_FILTER; }, "which no kernel needs"},
    {"tag_twice", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_tag = DT_SYMENT; }, "twice"},
    {"flag_textrel", [](Editor& e) { e.dynamic(DT_FLAGS).d_un.d_val |= DF_TEXTREL; }, "other than BIND_NOW"},
    {"flag_static_tls", [](Editor& e) { e.dynamic(DT_FLAGS).d_un.d_val |= DF_STATIC_TLS; }, "other than BIND_NOW"},
    {"flag_global", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_un.d_val |= DF_1_GLOBAL; }, "other than NOW"},
    {"flag_interpose", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_un.d_val |= DF_1_INTERPOSE; }, "other than NOW"},
    {"flag_nodelete", [](Editor& e) { e.dynamic(DT_FLAGS_1).d_un.d_val |= DF_1_NODELETE; }, "other than NOW"},
    {"strtab_far", [](Editor& e) { e.dynamic(DT_STRTAB).d_un.d_val = kFar; }, "the string table lies outside"},
    {"strsz_far", [](Editor& e) { e.dynamic(DT_STRSZ).d_un.d_val = UINT64_MAX; }, "the string table lies outside"},
    {"strsz_cut", [](Editor& e) { e.dynamic(DT_STRSZ).d_un.d_val -= 1; }, "does not end"},
    {"strsz_zero", [](Editor& e) { e.dynamic(DT_STRSZ).d_un.d_val = 0; }, "string table is empty"},
    {"symtab_writable", [](Editor& e) { e.dynamic(DT_SYMTAB).d_un.d_val = e.segment(PT_DYNAMIC).p_vaddr; }, "lies in a writable segment"},
    {"symtab_far", [](Editor& e) { e.dynamic(DT_SYMTAB).d_un.d_val = UINT64_MAX - 8; }, "the symbol table lies outside"},
    {"syment", [](Editor& e) { e.dynamic(DT_SYMENT).d_un.d_val = 16; }, "symbol table is malformed"},
    {"got_far", [](Editor& e) { e.dynamic(DT_PLTGOT).d_un.d_val = kFar; }, "offset table lies outside"},
    {"hash_far", [](Editor& e) { e.dynamic(DT_GNU_HASH).d_un.d_val = kFar; }, "the hash table lies outside"},
    {"hash_buckets_zero", [](Editor& e) { e.hash_word(0) = 0; }, "hash table is malformed"},
    {"hash_buckets_many", [](Editor& e) { e.hash_word(0) = 60000; }, "the hash table lies outside"},
    {"hash_first", [](Editor& e) { e.hash_word(1) = 0; }, "hash table is malformed"},
    {"hash_bloom", [](Editor& e) { e.hash_word(2) = 3; }, "hash table is malformed"},
    {"hash_shift", [](Editor& e) { e.hash_word(3) = 200; }, "hash table is malformed"},
    {"hash_bucket_low", [](Editor& e) { e.hash_word(1) += 1; }, "hash table is malformed"},
    {"hash_chain_endless",
     [](Editor& e) {
       for (size_t i = 6; i < 60; ++i) e.hash_word(i) &= ~1u;
     },
     ""},
    {"import_name", [](Editor& e) { e.symbol(1).st_name = 1 << 30; }, "outside the string table"},
    {"import_empty", [](Editor& e) { e.symbol(1).st_name = 0; }, "it imports ``"},
    {"import_ifunc", [](Editor& e) { e.symbol(1).st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC); }, "indirect function"},
    {"entry_ifunc", [](Editor& e) { e.symbol(e.entry_index()).st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC); }, "indirect function"},
    {"entry_tls", [](Editor& e) { e.symbol(e.entry_index()).st_info = ELF64_ST_INFO(STB_GLOBAL, STT_TLS); }, "thread-local"},
    {"entry_unique", [](Editor& e) { e.symbol(e.entry_index()).st_info = ELF64_ST_INFO(STB_GNU_UNIQUE, STT_FUNC); }, "unusual kind"},
    {"entry_object", [](Editor& e) { e.symbol(e.entry_index()).st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT); }, "is no function"},
    {"entry_local", [](Editor& e) { e.symbol(e.entry_index()).st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC); },
     "neither an import nor an entry"},
    {"entry_hidden", [](Editor& e) { e.symbol(e.entry_index()).st_other = STV_HIDDEN; }, "neither an import nor an entry"},
    {"entry_absolute", [](Editor& e) { e.symbol(e.entry_index()).st_shndx = SHN_ABS; }, "is no function"},
    {"entry_data", [](Editor& e) { e.symbol(e.entry_index()).st_value = e.segment(PT_DYNAMIC).p_vaddr; }, "outside the code"},
    {"entry_far", [](Editor& e) { e.symbol(e.entry_index()).st_value = kFar; }, "outside the code"},
    {"version_index", [](Editor& e) { e.version(1) = 0x7ffe; }, "unknown version"},
    {"versym_far", [](Editor& e) { e.dynamic(DT_VERSYM).d_un.d_val = kFar; }, "the table of symbol versions lies outside"},
    {"verneed_far", [](Editor& e) { e.dynamic(DT_VERNEED).d_un.d_val = kFar; }, "the version table lies outside"},
    {"verneed_none", [](Editor& e) { e.dynamic(DT_VERNEEDNUM).d_un.d_val = 0; }, "version table is malformed"},
    {"verneed_next", [](Editor& e) { e.need().vn_next = 16; }, "version table is malformed"},
    {"verneed_aux", [](Editor& e) { e.need().vn_aux = 0x7fffffff; }, "the version table lies outside"},
    {"verneed_file", [](Editor& e) { e.need().vn_file = e.aux().vna_name; }, "a library that it does not need"},
    {"vernaux_index", [](Editor& e) { e.aux().vna_other = 1; }, "version table is malformed"},
    {"verneed_alone", [](Editor& e) { e.dynamic(DT_VERSYM).d_tag = DT_BIND_NOW; }, "half a version table"},
    {"vernaux_next", [](Editor& e) { e.aux().vna_next = 16; }, "version table is malformed"},
    {"reloc_far", [](Editor& e) { e.relocation(DT_JMPREL).r_offset = kFar; }, "outside the writable data"},
    {"reloc_wrap", [](Editor& e) { e.relocation(DT_JMPREL).r_offset = UINT64_MAX - 3; }, "outside the writable data"},
    {"reloc_code", [](Editor& e) { e.relocation(DT_RELA).r_offset = e.segment(PT_LOAD, PF_R | PF_X).p_vaddr; },
     "outside the writable data"},
    {"reloc_dynamic", [](Editor& e) { e.relocation(DT_RELA).r_offset = e.segment(PT_DYNAMIC).p_vaddr + 8; }, "outside the writable data"},
    {"reloc_edge",
     [](Editor& e) {
       auto& s = e.segment(PT_LOAD, PF_R | PF_W);
       e.relocation(DT_RELA).r_offset = s.p_vaddr + s.p_memsz - 4;
     },
     "outside the writable data"},
    {"reloc_irelative", [](Editor& e) { e.relocation(DT_JMPREL).r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE); }, "indirect function"},
    {"reloc_copy", [](Editor& e) { e.relocation(DT_JMPREL).r_info = ELF64_R_INFO(1, R_X86_64_COPY); }, "relocation of the kind 5"},
    {"reloc_tls", [](Editor& e) { e.relocation(DT_RELA).r_info = ELF64_R_INFO(0, R_X86_64_DTPMOD64); }, "relocation of the kind 16"},
    {"reloc_symbol", [](Editor& e) { e.relocation(DT_JMPREL).r_info = ELF64_R_INFO(99999, R_X86_64_JUMP_SLOT); },
     "symbol that is not there"},
    {"reloc_no_symbol", [](Editor& e) { e.relocation(DT_JMPREL).r_info = ELF64_R_INFO(0, R_X86_64_JUMP_SLOT); },
     "symbol that is not there"},
    {"relacount", [](Editor& e) { e.dynamic(DT_RELACOUNT).d_un.d_val = 1000; }, "relocation table is malformed"},
    {"relacount_kind", [](Editor& e) { e.relocation(DT_RELA).r_info = ELF64_R_INFO(1, R_X86_64_64); }, "relocation of the kind 1"},
    {"relaent", [](Editor& e) { e.dynamic(DT_RELAENT).d_un.d_val = 8; }, "relocation table is malformed"},
    {"relasz", [](Editor& e) { e.dynamic(DT_RELASZ).d_un.d_val += 1; }, "relocation table is malformed"},
    {"relasz_far", [](Editor& e) { e.dynamic(DT_RELASZ).d_un.d_val = 24 * 100000; }, "the relocation table lies outside"},
    {"pltrel", [](Editor& e) { e.dynamic(DT_PLTREL).d_un.d_val = DT_REL; }, "relocation table is malformed"},
};

class Tampered : public ::testing::TestWithParam<size_t> {};

TEST_P(Tampered, IsRefusedWithItsRule) {
  const Change& change = kChanges[GetParam()];
  Editor editor;
  change.edit(editor);
  ASSERT_NE(editor.image, good()) << change.what;
  std::string error = check(editor.image);
  EXPECT_NE(error, "") << change.what;
  EXPECT_NE(error.find(change.expected), std::string::npos) << change.what << ": " << error;
}

INSTANTIATE_TEST_SUITE_P(Image, Tampered, ::testing::Range<size_t>(0, std::size(kChanges)),
                         [](const auto& param) { return kChanges[param.param].what; });

TEST(Tampered, TheUnchangedImagePasses) { EXPECT_EQ(check(good()), ""); }

TEST(Tampered, NoTruncationCrashesTheReader) {
  size_t refused = 0;
  const std::string& image = good();
  for (size_t n = 0; n < image.size(); ++n) refused += !check(image.substr(0, n)).empty();
  Editor editor;
  auto& data = editor.segment(PT_LOAD, PF_R | PF_W);
  EXPECT_GE(refused, data.p_offset + data.p_filesz);  // whatever follows the segments is not loaded, so it may be missing
}

TEST(Tampered, NoChangedByteCrashesTheReader) {
  std::string image = good();
  for (size_t i = 0; i < image.size(); ++i) {
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      image[i] = static_cast<char>(image[i] ^ flip);
      check(image);
      image[i] = static_cast<char>(image[i] ^ flip);
    }
  }
}

}  // namespace
}  // namespace kf
