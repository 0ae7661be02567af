// Package fake is a GPU without a GPU, for tests: the driver that csrc's tests have (csrc/tests/fake_cuda.h), and cubins for it, whose kernels
// are host code. Device memory is memory of the host there, between unmapped ranges, so a kernel's wild access is a signal.
//
// It owns nothing that is built into a program: only tests import it.
package fake

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Variable names libcuda-fake.so: `make test` sets it.
const Variable = "KF_FAKE_CUDA_LIBRARY"

// Driver is the path of the fake driver; without one the test is skipped. This process uses it from now on.
func Driver(t testing.TB) string {
	t.Helper()
	path := os.Getenv(Variable)
	if path == "" {
		t.Skipf("%s is not set (expected the path of libcuda-fake.so, which csrc's tests build)", Variable)
	}
	t.Setenv("KERNELFORGE_LIBCUDA", path)
	return path
}

// Wrap makes a driver that is the fake one with some of its behaviour set (csrc/tests/fake_cuda.h, KF_FAKE_CUDA and KF_FAKE_FAIL), since a worker
// gets no variables of tests.
func Wrap(t testing.TB, driver string, set map[string]string) string {
	t.Helper()
	source := "#include <stdlib.h>\n__attribute__((constructor)) static void set(void) {\n"
	for name, value := range set {
		source += fmt.Sprintf("  setenv(%q, %q, 1);\n", name, value)
	}
	path := filepath.Join(t.TempDir(), "libcuda-wrapped.so")
	build(t, source+"}\n", "-x", "c", "-o", path, "-", "-x", "none", "-Wl,--no-as-needed", driver, "-Wl,-rpath,"+filepath.Dir(driver))
	return path
}

// head is what every kernel of Cubin is written after: its parameters come as the driver gets them.
const head = "#include <stddef.h>\n#include <stdint.h>\n#include <dlfcn.h>\n#include <stdlib.h>\n" +
	"#define KERNEL(name) extern \"C\" __attribute__((visibility(\"default\"))) void name(void** p, const uint32_t* grid, const uint32_t* block)\n" +
	"#define ARG(type, i) (*(type*)p[i])\n" +
	"static inline void fault_next(int result) {\n" +
	"  void* driver = dlopen(getenv(\"KERNELFORGE_LIBCUDA\"), RTLD_NOW | RTLD_NOLOAD);\n" +
	"  ((void (*)(int))dlsym(driver, \"kf_fake_fault\"))(result);\n}\n"

// Cubin is a made-up cubin for compute capability 9.0 with the kernels of a source. parameters are their sizes ("8,8,4"); source is C++ that defines them:
// KERNEL(kf_main) { float* y = ARG(float*, 1); ... }. `fault_next(700)` makes the next launch fault on the device.
func Cubin(t testing.TB, parameters, source string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kernel.so")
	build(t, head+source, "-x", "c++", "-std=c++20", "-O1", "-w", "-fPIC", "-shared", "-fvisibility=hidden", "-o", path, "-", "-ldl")
	host, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kernels []string
	info := "arch=90\n"
	for _, found := range defined.FindAllStringSubmatch(source, -1) {
		kernels = append(kernels, found[1])
		info += found[1] + " params=" + parameters + " shared=0 threads=1024\n"
	}
	return assemble(kernels, info, host)
}

func build(t testing.TB, source string, options ...string) {
	t.Helper()
	compiler := os.Getenv("KERNELFORGE_CXX")
	if compiler == "" {
		compiler = "g++"
	}
	command := exec.Command(compiler, append([]string{"-shared", "-fPIC"}, options...)...)
	command.Stdin = bytes.NewReader([]byte(source))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build for the fake driver: %v\n%s", err, out)
	}
}

var defined = regexp.MustCompile(`KERNEL\((\w+)\)`)

// assemble writes the ELF: an empty `.text.` section and a symbol for each kernel, and the sections that the fake driver reads.
func assemble(kernels []string, info string, host []byte) []byte {
	names := []string{"", ".shstrtab", ".strtab", ".symtab", ".kf.info", ".kf.host"}
	for _, kernel := range kernels {
		names = append(names, ".text."+kernel)
	}
	var table bytes.Buffer
	offsets := make([]uint32, len(names))
	for i, name := range names {
		offsets[i] = uint32(table.Len())
		table.WriteString(name + "\x00")
	}
	var symbols bytes.Buffer
	write(&symbols, elf.Sym64{})
	texts := []byte{0}
	contents := [][]byte{nil, table.Bytes(), nil, nil, []byte(info), host}
	types := []elf.SectionType{elf.SHT_NULL, elf.SHT_STRTAB, elf.SHT_STRTAB, elf.SHT_SYMTAB, elf.SHT_PROGBITS, elf.SHT_PROGBITS}
	for _, kernel := range kernels {
		write(&symbols, elf.Sym64{Name: uint32(len(texts)), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC), Shndx: uint16(len(contents))})
		texts = append(texts, kernel+"\x00"...)
		contents, types = append(contents, make([]byte, 16)), append(types, elf.SHT_PROGBITS)
	}
	contents[2], contents[3] = texts, symbols.Bytes()
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: 190, Version: 1, Ehsize: 64, Shentsize: 64, Shnum: uint16(len(names)), Shstrndx: 1}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var out, sections bytes.Buffer
	out.Write(make([]byte, 64))
	for i, content := range contents {
		out.Write(make([]byte, (16-out.Len()%16)%16))
		section := elf.Section64{Name: offsets[i], Type: uint32(types[i])}
		if i > 0 {
			section.Off, section.Size = uint64(out.Len()), uint64(len(content))
		}
		if types[i] == elf.SHT_SYMTAB {
			section.Link, section.Entsize, section.Info = 2, 24, 1
		}
		write(&sections, section)
		out.Write(content)
	}
	out.Write(make([]byte, (16-out.Len()%16)%16))
	header.Shoff = uint64(out.Len())
	out.Write(sections.Bytes())
	image := out.Bytes()
	var first bytes.Buffer
	write(&first, header)
	copy(image, first.Bytes())
	return image
}

func write(into *bytes.Buffer, value any) {
	if err := binary.Write(into, binary.LittleEndian, value); err != nil {
		panic(err) // a buffer takes every struct of numbers
	}
}
