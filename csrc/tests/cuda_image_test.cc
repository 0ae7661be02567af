// cuda_image_test.cc: cubins, whole and broken.
#include "cuda_image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cuda_support.h"
#include "error.h"

namespace kf {
namespace {

using namespace testing;
using cuda::Cubin;

std::string refused(const std::string& image) {
  return error_of([&] { Cubin cubin(image); }, KFR_BAD_CODE);
}

template <class T>
std::string edited(std::string image, size_t offset, void (*edit)(T&)) {
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  edit(value);
  std::memcpy(image.data() + offset, &value, sizeof value);
  return image;
}
std::string header(void (*edit)(Elf64_Ehdr&)) { return edited(cubin("kf_main\nkf_more\n"), 0, edit); }
std::string section(size_t index, void (*edit)(Elf64_Shdr&)) {
  std::string image = cubin("kf_main\nkf_more\n");
  Elf64_Ehdr h;
  std::memcpy(&h, image.data(), sizeof h);
  return edited(image, h.e_shoff + index * sizeof(Elf64_Shdr), edit);
}

TEST(Cubin, NamesItsKernels) {
  Cubin cubin_(cubin("arch=90\nkf_main\nkf_more\n"));
  EXPECT_EQ(cubin_.kernels(), (std::vector<std::string>{"kf_main", "kf_more"}));
  cubin_.need("kf_more");
  EXPECT_EQ(error_of([&] { cubin_.need("kf_other"); }, KFR_BAD_CODE),
            "check the cubin: it has no kernel `kf_other` (it holds `kf_main`, `kf_more`)");
}

TEST(Cubin, WhatIsNoCubin) {
  EXPECT_EQ(refused(""), "check the cubin: it is empty");
  EXPECT_EQ(refused(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry kf_main() { ret; }\n"),
            "check the cubin: it is no ELF file");
  EXPECT_NE(refused(scale_image()).find("ELF machine 62 (expected 190, 64-bit)"), std::string::npos);
  EXPECT_NE(refused(header([](Elf64_Ehdr& h) { h.e_ident[EI_CLASS] = ELFCLASS32; })).find("machine 190"), std::string::npos);
  EXPECT_NE(refused(header([](Elf64_Ehdr& h) { h.e_type = ET_REL; })).find("it is not linked"), std::string::npos);
  EXPECT_EQ(refused(cubin("arch=90\n")), "check the cubin: it holds no kernel");
  EXPECT_EQ(refused(std::string((size_t{64} << 20) + 1, 'x')), "check the cubin: 67108865 bytes (expected at most 67108864)");
}

TEST(Cubin, MayHoldVariables) {  // each `constexpr` at file scope is one, which no code refers to
  EXPECT_EQ(Cubin(cubin("kf_main\n", "", 4)).kernels(), (std::vector<std::string>{"kf_main"}));
}

TEST(Cubin, TablesLieInside) {
  EXPECT_NE(refused(header([](Elf64_Ehdr& h) { h.e_shoff = UINT64_MAX - 10; })).find("a section header lies outside"), std::string::npos);
  EXPECT_NE(refused(header([](Elf64_Ehdr& h) { h.e_shoff += 64; })).find("a section header lies outside"), std::string::npos);
  EXPECT_NE(refused(header([](Elf64_Ehdr& h) { h.e_shnum = 0; })).find("section headers are malformed"), std::string::npos);
  EXPECT_NE(refused(header([](Elf64_Ehdr& h) { h.e_shstrndx = 99; })).find("section headers are malformed"), std::string::npos);
  EXPECT_NE(refused(header([](Elf64_Ehdr& h) { h.e_shstrndx = 3; })).find("no string table"), std::string::npos);
  EXPECT_NE(
      refused(header([](Elf64_Ehdr& h) { h.e_phoff = 1 << 30, h.e_phnum = 1, h.e_phentsize = sizeof(Elf64_Phdr); })).find("program header"),
      std::string::npos);
  EXPECT_NE(refused(section(4, [](Elf64_Shdr& s) { s.sh_size = UINT64_MAX; })).find("a section lies outside"), std::string::npos);
  EXPECT_NE(refused(section(4, [](Elf64_Shdr& s) { s.sh_offset = 1 << 30; })).find("a section lies outside"), std::string::npos);
  EXPECT_NE(refused(section(4, [](Elf64_Shdr& s) { s.sh_name = 1 << 20; })).find("a name lies outside"), std::string::npos);
  EXPECT_NE(refused(section(3, [](Elf64_Shdr& s) { s.sh_entsize = 1; })).find("symbol table is malformed"), std::string::npos);
  EXPECT_NE(refused(section(3, [](Elf64_Shdr& s) { s.sh_link = 77; })).find("no string table"), std::string::npos);
}

TEST(Cubin, NoPrefixOfOneIsReadPastItsEnd) {
  std::string whole = cubin("kf_main params=8\n");
  for (size_t n = 0; n < whole.size(); ++n) refused(whole.substr(0, n));
}

}  // namespace
}  // namespace kf
