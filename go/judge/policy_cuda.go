package judge

import "regexp"

// cudaRules are the policy of device code. What names cannot tell is held by the image check (go/cuda: writable variables, calls of the device's
// runtime) and by the compile options (no runtime library, no other headers).
var cudaRules = &rules{
	file:    "candidate.cu",
	prelude: "kf_kernel.cuh",
	include: regexp.MustCompile(`^["<]kf_kernel\.cuh[">]$`),
	pragmas: regexp.MustCompile(`^(once|nounroll|(GCC )?unroll( [A-Za-z0-9_: ]+| ?\([A-Za-z0-9_:+*/ -]+\))?)$`),

	expected: "unroll, nounroll or once",
	attributes: []string{
		"aligned", "always_inline", "assume", "cold", "const", "device", "fallthrough", "global", "hot", "likely", "maybe_unused", "noinline", "pure",
		"shared", "unlikely", "unused", "constant", "launch_bounds", "gnu",
	},
	launches: true,
	forbidden: with(everywhere, map[string]string{
		"printf": "output", "vprintf": "output", "puts": "output", "putchar": "output",
		"malloc": "memory that outlives the call", "free": "memory that outlives the call", "realloc": "memory that outlives the call",
		"new": "memory that outlives the call", "delete": "memory that outlives the call",
		"clock": "a clock", "clock64": "a clock", "globaltimer": "a clock", "__globaltimer": "a clock", "__nanosleep": "a wait",
		"__trap": "a way to end the process", "__builtin_trap": "a way to end the process", "__builtin_abort": "a way to end the process",
		"abort": "a way to end the process", "exit": "a way to end the process", "__brkpt": "a way to stop the process", "assert": "output",
		"__assert_fail": "output", "__assertfail": "output", "__prof_trigger": "the profiler's counters",
		"__managed__": "memory that is shared with the host", "__nv_associate_access_property": "the state of the caches",
		"__builtin_return_address": "the caller's code", "__builtin_frame_address": "the caller's stack",
	}),
	prefixes: map[string]string{
		"cuda": "the CUDA runtime", "__cuda": "the CUDA runtime", // also __cudart_..., which the image check takes for the compiler's own
		"__nvvm_": "a built-in of the compiler", "__builtin_nvvm": "a built-in of the compiler",
	},
}
