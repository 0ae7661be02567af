// Command libkernelforge is the C boundary of the core (kernelforge.h). It owns crossing: bytes in, bytes out, panics caught, signals
// left as the host process had them. It refuses to print, to read the environment, and to hold any logic: operations live in calls.go.
package main

/*
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
*/
import "C"

import (
	"os/signal"
	"syscall"
	"unsafe"
)

func init() {
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe must give an error, not end the host process
}

func main() {}

//export goInit
func goInit(json *C.char, jsonN C.int64_t, out **C.char, outN *C.int64_t) C.int32_t {
	rc, answer := configure(borrow(json, jsonN))
	return give(rc, answer, out, outN)
}

//export goCall
func goCall(op *C.char, opN C.int64_t, in *C.char, inN C.int64_t, out **C.char, outN *C.int64_t) C.int32_t {
	rc, answer := call(string(borrow(op, opN)), borrow(in, inN))
	return give(rc, answer, out, outN)
}

// borrow copies bytes that belong to the caller, so that nothing here can outlive the call with them.
func borrow(text *C.char, n C.int64_t) []byte {
	if text == nil || n <= 0 {
		return nil
	}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(text)), int(n))...)
}

// give hands an answer to the caller in memory of C.
func give(rc int32, answer []byte, out **C.char, outN *C.int64_t) C.int32_t {
	memory := C.malloc(C.size_t(len(answer) + 1))
	if memory == nil {
		*out, *outN = nil, 0
		return 4 // KF_NO_MEMORY
	}
	copy(unsafe.Slice((*byte)(memory), len(answer)), answer)
	*out, *outN = (*C.char)(memory), C.int64_t(len(answer))
	return C.int32_t(rc)
}
