package judge

import (
	"strings"
	"testing"
)

func TestDeviceCodeAsPeopleWriteItPasses(t *testing.T) {
	for _, source := range []string{
		"extern \"C\" __global__ void __launch_bounds__(256, 2) kf_main(const float* __restrict__ x, float* y, long n) {}",
		"#include \"kf_kernel.cuh\"\n#include <kf_kernel.cuh>\n__constant__ float table[4] = {1, 2, 3, 4};",
		"#pragma unroll\n#pragma unroll 4\n#pragma unroll VEC\n#pragma unroll(8)\n#pragma unroll (VEC / 2)\n#pragma unroll Words::count\n#pragma unroll(Words::count)\n#pragma nounroll\nint x;",
		"#define UNROLL _Pragma(\"unroll 4\")\ntemplate <int N> __device__ __forceinline__ float f(float (&a)[N]) { return a[0]; }",
		"__global__ void __cluster_dims__(2, 1, 1) k() { extern __shared__ __align__(16) char smem[]; __syncthreads(); }",
		"float4 v = reinterpret_cast<const float4*>(p)[i]; v = __ldcs(q); int b = 1 << 3 << 2; bool c = a < b, d = x <y>::z;",
		"[[likely]] if (x) __shfl_xor_sync(0xffffffffu, x, 1); __attribute__((aligned(16))) float a[4];",
		"atomicAdd(p, 1.0f); __threadfence(); __nv_bfloat16 h; // printf, asm, malloc in comments\n",
	} {
		if err := cudaRules.check(oneKernel(source)); err != nil {
			t.Errorf("refused: %v\n%s", err, source)
		}
	}
}

func TestWhatDeviceCodeHasNoUseForIsRefusedByName(t *testing.T) {
	for _, c := range []struct{ source, names string }{
		{"__global__ void k() { asm(\"trap;\"); }", "asm"},
		{"__global__ void k() { asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(t)); }", "asm"},
		{"__global__ void k() { __asm__(\"exit;\"); }", "__asm__"},
		{"#define J(a, b) a##b\n__global__ void k() { J(as, m)(\"trap;\"); }", "##"},
		{"#include <cuda_fp16.h>", "kf_kernel.cuh"},
		{"#include \"kf_kernel.h\"", "kf_kernel.cuh"},
		{"#include </etc/passwd>", "kf_kernel.cuh"},
		{"#pragma nv_exec_check_disable\n", "pragma"},
		{"#pragma GCC optimize(3)\n", "pragma"},
		{"__global__ void k() { printf(\"%d\", 1); }", "printf"},
		{"__global__ void k() { void* p = malloc(4); }", "malloc"},
		{"__global__ void k() { float* p = new float[4]; }", "new"},
		{"__global__ void k() { delete[] p; }", "delete"},
		{"__global__ void k() { long long t = clock64(); }", "clock"},
		{"__global__ void k() { __nanosleep(100); }", "a wait"},
		{"__global__ void k() { __trap(); }", "__trap"},
		{"__global__ void k() { __builtin_trap(); }", "__builtin_trap"},
		{"__global__ void k() { __brkpt(); }", "__brkpt"},
		{"__global__ void k() { assert(0); }", "assert"},
		{"__managed__ int x;", "__managed__"},
		{"__global__ void k() { other<<<1, 32>>>(); }", "<<<"},
		{"__global__ void k() { other<float> <<< 1, 32 >>> (); }", "<<<"},
		{"__global__ void k() { cudaMalloc(&p, 4); }", "CUDA runtime"},
		{"__global__ void k() { __nvvm_bar0(); }", "__nvvm_bar0"},
		{"__device__ int __cudart_i2opi_f[6];", "__cudart_i2opi_f"},
		{"__attribute__((visibility(\"default\"))) int x;", "visibility"},
		{"auto s = R\"(raw)\";", "raw string"},
	} {
		err := cudaRules.check(oneKernel(c.source))
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("found %v (expected a refusal that names %q) for\n%s", err, c.names, c.source)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "candidate.cu:") {
			t.Errorf("found %v (expected a line of candidate.cu)", err)
		}
	}
}
