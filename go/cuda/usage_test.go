package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernelforge/kernelforge/go/card"
)

// Two entries: one that spills (of 1,024 threads, two blocks a multiprocessor) and one with static shared memory; and a function that is no entry.
const hungry = `
__device__ __noinline__ float beside(float x) { return x * 2; }
extern "C" __global__ void __launch_bounds__(1024, 2) spills(const float* x, float* y, int n) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = x[threadIdx.x * 64 + i];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + k) % 64] + 1;
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) y[threadIdx.x * 64 + i] = v[i];
}
extern "C" __global__ void shares(const float* x, float* y) {
  __shared__ float s[256];
  s[threadIdx.x] = beside(x[threadIdx.x]);
  __syncthreads();
  y[threadIdx.x] = s[255 - threadIdx.x];
}
`

// What is read from a cubin is what NVIDIA's own tool says of it.
func TestWhatAKernelTakesIsWhatItsBinarySays(t *testing.T) {
	tool := os.Getenv("KF_CUOBJDUMP")
	if tool == "" {
		t.Skip("KF_CUOBJDUMP is not set (expected the path of cuobjdump; the triton wheel carries one)")
	}
	line := regexp.MustCompile(`Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)`)
	for _, arch := range []string{"sm_75", "sm_90a", "sm_120"} {
		made := config(t)
		made.Arch = arch
		cubin := image(t, opened(t, made), hungry, nil)
		path := filepath.Join(t.TempDir(), "k.cubin")
		if err := os.WriteFile(path, cubin, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(tool, "--dump-resource-usage", path).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var want []card.Usage
		for _, found := range line.FindAllStringSubmatch(string(out), -1) {
			use := card.Usage{Entry: found[1]}
			fmt.Sscan(found[2], &use.Registers)
			fmt.Sscan(found[3], &use.StackBytes)
			fmt.Sscan(found[4], &use.SharedBytes)
			if use.Entry == "spills" || use.Entry == "shares" {
				want = append(want, use)
			}
		}
		slices.SortFunc(want, func(a, b card.Usage) int { return strings.Compare(a.Entry, b.Entry) })
		got, err := Usage(cubin)
		if err != nil || !slices.Equal(got, want) || len(got) != 2 {
			t.Errorf("%s: found %+v, %v (expected %+v of\n%s)", arch, got, err, want, out)
		}
		for _, use := range got {
			if use.Registers == 0 || use.Entry == "spills" && use.StackBytes == 0 || use.Entry == "shares" && use.SharedBytes < 1024 {
				t.Errorf("%s: found %+v", arch, use)
			}
		}
	}
	for _, damaged := range [][]byte{nil, []byte("\x7fELF"), make([]byte, 200)} {
		if _, err := Usage(damaged); err == nil {
			t.Errorf("%d bytes that are no cubin are read", len(damaged))
		}
	}
}
