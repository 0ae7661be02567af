package brief

// rules.go owns the sentences that are the same for every card of a target.

import (
	"encoding/json"

	"github.com/kernelforge/kernelforge/go/card"
)

var hostSource = []string{
	"C++17, one function for each kernel of the spec: `KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args)`; it does the part [begin, end) of the work, and several threads call it with parts that do not overlap",
	"`kf_arg` is a union {void* p; int64_t i; double f;}; `args` are in the order of the spec: `.p` of a slot, `.i` of an int, `.f` of a float",
	"the header `kf_kernel.h` is in front of the source, and no other may be included: fixed-width integers, <cmath>, vectors `kf_v<float>` of KF_LANES floats with `kf_load`, `kf_store`, `kf_load_n`, `kf_store_n`, `kf_set`, `kf_fma`, `kf_max`, `kf_min`, `kf_exp`, `kf_log`, `kf_tanh`, `kf_erf`, `kf_sqrt`, `kf_hsum`, `kf_hmax`; half types are `kf_f16` and `kf_bf16`, `kf_of(x)` widens one and `kf_to<T>(x)` rounds back; intrinsics of the machine are allowed",
	"no allocation, threads, input or output, static or thread-local variables, inline assembly, or pointers of its own",
}

var cudaSource = []string{
	"device code, C++17 compiled by NVRTC, one entry for each kernel of the spec: `extern \"C\" __global__ void __launch_bounds__(N) kf_main(...)`; parameters are typed and in the order of the spec's args",
	"the header `kf_kernel.cuh` is in front of the source, and no other may be included: fixed-width integers, 16-byte vectors `kf_vec<T, N>` with `kf_load<N>(p)`, `kf_store(p, v)`, `kf_wide(v)`, `kf_narrow<T>(v)`, `kf_aligned<N>(p)`, folds `kf_warp_fold(x, kf_sum_of{})`, `kf_block_fold<THREADS>(x, kf_max_of{})`, scans `kf_warp_scan`, `kf_block_scan`, `kf_divider`; half types are `kf_f16` and `kf_bf16` (their bits), `kf_of(x)` widens one and `kf_to<T>(x)` rounds back",
	"functions without a mark are device functions; elementary functions (expf, tanhf, rsqrtf, ...) are the compiler's",
	"no inline assembly, launches, printf, allocation, clocks, traps, or variables that keep their value between launches",
}

var specRules = []string{
	"JSON: `schema` is 1; `constants` become macros (-DVEC=8): names in capitals, values plain numbers or words; `workspaces` are scratch memory of one call, {bytes, zeroed}; `kernels` run in order, each finished before the next begins",
	"an arg is exactly one of {\"slot\": name of a tensor or workspace}, {\"int\": expression}, {\"float\": literal}",
	"expressions are strings over integers, the names below, + - * / % ( ) and ceildiv(a, b), min(a, b), max(a, b); they are evaluated once for each variant",
	"every variant of the card is served by the same source and spec: take sizes and strides as args where they differ between variants",
}

var hostSpec = []string{
	"a kernel has `entry`, `work` (number of work items, an expression), `grain` (items that one thread takes at least, an expression), `args`",
}

var cudaSpec = []string{
	"a kernel has `entry`, `grid` and `block` (three expressions each), `smem` (bytes of dynamic shared memory), `args`, and may have `cluster` (three expressions) and `cooperative` (true or false); `max_blocks_per_sm` of this kernel may be used in `grid` and `args`",
	"an int or float arg names its `type`: i32, i64, f32 or f64",
}

// checks are what a candidate passes through, in order.
var checks = []string{
	"policy: the source holds nothing that is refused above",
	"compile: with this project's own flags (no fast-math); image: the binary imports, exports and initialises nothing else",
	"launch: it runs in a sandboxed process between unmapped guard pages, outputs filled with poison: it writes every element of every output, and nothing else; inputs stay unchanged, and so do the gaps between strided elements",
	"shape and type of every output are eager's, strides included",
	"values on captured, fresh, special (NaN, infinities, -0.0, denormals) and exact inputs, held against float64 with an allowance relative to eager's own error; operators that only move or round values are compared bit by bit",
	"repeats give the same bits, with dirt in free stack, registers, shared memory and workspaces; a result does not depend on how the work is split",
	"time: paired and interleaved with eager on the same data; cost = its time / eager's time, weighted by the calls of each variant, lower wins; below 0.7 of the copy's time it is called too fast",
	"finalists: sanitizer, fresh processes, and a confirmation by the real dispatch path; only a gain that is shown to exceed the noise is served, and only if the whole model is not slower and as right as before",
}

var hostExample = Example{
	Words: "relu of contiguous float32 tensors: out0[i] = max(self[i], 0), NaN stays NaN",
	Source: `KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* self = static_cast<const float*>(args[0].p);
  float* out = static_cast<float*>(args[1].p);
  for (int64_t i = begin; i < end; ++i) out[i] = self[i] < 0 ? 0.0f : self[i];
}
`,
	Spec: example(`{"schema": 1, "constants": {}, "workspaces": [],
 "kernels": [{"entry": "kf_main", "work": "out0_numel", "grain": "max(16384, ceildiv(out0_numel, threads))",
              "args": [{"slot": "self"}, {"slot": "out0"}]}]}`),
}

var cudaExample = Example{
	Words: "relu of contiguous float32 tensors: out0[i] = max(self[i], 0), NaN stays NaN",
	Source: `extern "C" __global__ void __launch_bounds__(THREADS) kf_main(const float* self, float* out, int64_t n) {
  for (int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x; i < n; i += int64_t(gridDim.x) * THREADS)
    out[i] = self[i] < 0 ? 0.0f : self[i];
}
`,
	Spec: example(`{"schema": 1, "constants": {"THREADS": "256"}, "workspaces": [],
 "kernels": [{"entry": "kf_main", "grid": ["min(ceildiv(out0_numel, 256), sm_count * max_blocks_per_sm)", "1", "1"], "block": ["256", "1", "1"],
              "smem": "0", "args": [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i64"}]}]}`),
}

func example(text string) card.Spec {
	var spec card.Spec
	if err := card.Decode([]byte(text), &spec); err != nil {
		panic(err) // a test reads it
	}
	return spec
}

func integers(arg card.Arg) []int64 {
	var values []int64
	if json.Unmarshal(arg.Value, &values) != nil {
		return nil
	}
	return values
}
