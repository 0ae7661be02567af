package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// nvrtc is an opened libnvrtc.so, bound through purego. It lives in the compile server alone.
type nvrtc struct {
	path         string
	major, minor int
	archs        []int

	errorString func(code int32) string
	create      func(program *uintptr, source, name unsafe.Pointer, headers int32, texts, names unsafe.Pointer) int32
	destroy     func(program *uintptr) int32
	compile     func(program uintptr, count int32, options unsafe.Pointer) int32
	cubinSize   func(program uintptr, size *uintptr) int32
	cubin       func(program uintptr, into unsafe.Pointer) int32
	ptxSize     func(program uintptr, size *uintptr) int32
	ptx         func(program uintptr, into unsafe.Pointer) int32
	logSize     func(program uintptr, size *uintptr) int32
	log         func(program uintptr, into unsafe.Pointer) int32
}

// success is NVRTC_SUCCESS.
const success = 0

// openNVRTC opens the library at a path, or of a name on the loader path.
func openNVRTC(path string) (*nvrtc, error) {
	if folder := filepath.Dir(path); folder != "." {
		// NVRTC opens its built-ins by their name alone when it first compiles; opened here, that name is taken whatever the loader path is.
		beside, _ := filepath.Glob(filepath.Join(folder, "libnvrtc-builtins.so*")) // the pattern is well formed
		for _, builtins := range beside {
			_, _ = purego.Dlopen(builtins, purego.RTLD_NOW|purego.RTLD_GLOBAL) // if it cannot be opened, the first compile says so
		}
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	n := &nvrtc{path: path}
	var version func(major, minor *int32) int32
	var archCount func(count *int32) int32
	var archList func(list unsafe.Pointer) int32
	var missing error
	for name, function := range map[string]any{
		"nvrtcVersion": &version, "nvrtcGetNumSupportedArchs": &archCount, "nvrtcGetSupportedArchs": &archList, "nvrtcGetErrorString": &n.errorString,
		"nvrtcCreateProgram": &n.create, "nvrtcDestroyProgram": &n.destroy, "nvrtcCompileProgram": &n.compile, "nvrtcGetCUBINSize": &n.cubinSize,
		"nvrtcGetCUBIN": &n.cubin, "nvrtcGetPTXSize": &n.ptxSize, "nvrtcGetPTX": &n.ptx, "nvrtcGetProgramLogSize": &n.logSize, "nvrtcGetProgramLog": &n.log,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		purego.RegisterFunc(function, symbol)
	}
	if missing != nil {
		return nil, missing
	}
	var major, minor, count int32
	if code := version(&major, &minor); code != success {
		return nil, n.refused("tell its version", code)
	}
	n.major, n.minor = int(major), int(minor)
	if code := archCount(&count); code != success {
		return nil, n.refused("count its architectures", code)
	}
	list := make([]int32, count)
	if code := archList(pointer(list)); code != success {
		return nil, n.refused("list its architectures", code)
	}
	for _, arch := range list {
		n.archs = append(n.archs, int(arch))
	}
	return n, nil
}

func (n *nvrtc) refused(what string, code int32) error {
	return fmt.Errorf("NVRTC did not %s: %s", what, n.errorString(code))
}

// built is what NVRTC made of a source.
type built struct {
	image  []byte // a cubin
	ptx    string // the assembly on the way to it
	ending string // "" with an image, else what NVRTC said in a word
	log    string // the compiler's own, at most maxLog of it
}

// build compiles one source with its headers to a cubin. An error says that NVRTC itself is broken.
func (n *nvrtc) build(source, name string, headers map[string]string, options []string) (b built, err error) {
	var texts, names []unsafe.Pointer
	for header, text := range headers {
		names, texts = append(names, terminated(header)), append(texts, terminated(text))
	}
	var program uintptr
	code := n.create(&program, terminated(source), terminated(name), int32(len(names)), pointer(texts), pointer(names))
	runtime.KeepAlive(texts)
	runtime.KeepAlive(names)
	if code != success {
		return b, n.refused("make a program", code)
	}
	defer n.destroy(&program)
	list := make([]unsafe.Pointer, len(options))
	for i, option := range options {
		list[i] = terminated(option)
	}
	code = n.compile(program, int32(len(list)), pointer(list))
	runtime.KeepAlive(list)
	log, err := n.text(program, "its log", n.logSize, n.log)
	if err != nil {
		return b, err
	}
	b.log = log[:min(len(log), maxLog)]
	if code != success {
		b.ending = n.errorString(code)
		return b, nil
	}
	if b.ptx, err = n.text(program, "its assembly", n.ptxSize, n.ptx); err != nil {
		return b, err
	}
	b.image, err = n.bytes(program, "a cubin", n.cubinSize, n.cubin)
	return b, err
}

func (n *nvrtc) bytes(program uintptr, what string, sizeOf func(uintptr, *uintptr) int32, give func(uintptr, unsafe.Pointer) int32) ([]byte, error) {
	var size uintptr
	if code := sizeOf(program, &size); code != success {
		return nil, n.refused("give the size of "+what, code)
	}
	data := make([]byte, size)
	if size > 0 {
		if code := give(program, pointer(data)); code != success {
			return nil, n.refused("give "+what, code)
		}
	}
	return data, nil
}

// text is what NVRTC ends with a zero byte.
func (n *nvrtc) text(program uintptr, what string, sizeOf func(uintptr, *uintptr) int32, give func(uintptr, unsafe.Pointer) int32) (string, error) {
	data, err := n.bytes(program, what, sizeOf, give)
	return string(bytes.TrimRight(data, "\x00")), err
}

// terminated is a string as C has it.
func terminated(text string) unsafe.Pointer {
	return pointer(append([]byte(text), 0))
}

func pointer[T any](list []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(list)) }
