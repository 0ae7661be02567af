// layout.h: where the bytes of a host image lie once it is loaded: header, segments, rights. image.cc reads the tables on top of it.
#ifndef KF_LAYOUT_H_
#define KF_LAYOUT_H_

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace kf {

// Throws Error(KFR_BAD_CODE) that begins with "check the image".
[[noreturn]] void bad_image(const std::string& text, const std::string& hint = {});

// What the loader would map, believed only as far as it was checked. Everything here is by address, as the loader works.
class Layout {
 public:
  explicit Layout(std::string_view image);  // throws for a header or segment that breaks a rule

  // One object of the file, copied out, so that nothing depends on alignment.
  template <class T>
  T read(uint64_t offset, const char* what) const {
    if (offset > image_.size() || image_.size() - offset < sizeof(T)) bad_image(std::string(what) + " lies outside the file");
    T value;
    std::memcpy(&value, image_.data() + offset, sizeof value);
    return value;
  }
  std::string_view bytes(uint64_t offset, uint64_t n) const { return image_.substr(offset, n); }

  // The file offset of a range of addresses that lies in the file-backed part of one segment which is never written.
  uint64_t constant(uint64_t address, uint64_t n, const char* what) const;
  // The file offset of the dynamic section, whose entries the loader counts up to DT_NULL.
  uint64_t dynamic_offset() const;
  uint64_t dynamic_bytes() const { return dynamic_.p_filesz; }

  bool is_code(uint64_t address) const;
  // Whether n bytes at an address are writable while the image is relocated, and not the dynamic section.
  bool is_relocatable(uint64_t address, uint64_t n) const;
  bool in_writable(uint64_t address) const;

  // Everything writable must turn read-only after relocation: no state from call to call, and none to write code addresses into.
  void check_state() const;

 private:
  void read_header();
  void read_segments();
  void add_load(const Elf64_Phdr& h);
  void check_inert() const;
  void read_notes(const Elf64_Phdr& h) const;

  std::string_view image_;
  uint64_t headers_at_ = 0;
  std::vector<Elf64_Phdr> headers_, loads_;
  Elf64_Phdr dynamic_{}, relro_{};
};

}  // namespace kf
#endif  // KF_LAYOUT_H_
