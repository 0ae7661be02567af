package judge

import "regexp"

// hostRules are the policy of C++ candidates.
var hostRules = &rules{
	file:    "candidate.cc",
	prelude: "kf_kernel.h",
	include: regexp.MustCompile(`^["<]kf_kernel\.h[">]$`),
	pragmas: regexp.MustCompile(`^(once|GCC ivdep|GCC unroll ([0-9]{1,3}|[A-Z][A-Z0-9_]*)|unroll [0-9]{1,3}|clang loop (vectorize|unroll|interleave)\((enable|disable|full)\)|omp simd\b[a-z0-9_ :(),+*]*)$`),

	expected: "unroll, ivdep, once or a loop hint",
	attributes: []string{
		"aligned", "always_inline", "assume", "assume_aligned", "cold", "const", "ext_vector_type", "fallthrough", "flatten", "hot", "likely",
		"may_alias", "maybe_unused", "noinline", "nonnull", "pure", "restrict", "unlikely", "unused", "vector_size", "gnu",
	},
	constants: []string{"KF_LANES"},
	forbidden: with(everywhere, map[string]string{
		"__builtin_setjmp": "a jump out of the kernel", "__builtin_longjmp": "a jump out of the kernel", "__builtin_return_address": "the caller's code",
		"__builtin_frame_address": "the caller's stack", "__builtin_eh_return": "a jump out of the kernel", "__builtin_apply": "a call of unknown kind",
		"_mm_setcsr": "the caller's rounding mode", "_MM_SET_FLUSH_ZERO_MODE": "the caller's rounding mode",
		"_MM_SET_DENORMALS_ZERO_MODE": "the caller's rounding mode", "_MM_SET_ROUNDING_MODE": "the caller's rounding mode",
		"_MM_SET_EXCEPTION_MASK": "the caller's rounding mode", "_MM_SET_EXCEPTION_STATE": "the caller's rounding mode",
		"__rdtsc": "a clock", "_rdtsc": "a clock", "__rdtscp": "a clock", "__rdpmc": "a clock", "_rdpmc": "a clock", "_tpause": "a clock", "_umwait": "a clock",
		"_mm_clflush": "the state of the caches", "_mm_clflushopt": "the state of the caches", "_mm_clwb": "the state of the caches",
		"_mm_cldemote": "the state of the caches", "_mm_mwait": "a wait", "_mm_monitor": "a wait",
		"_xbegin": "transactions", "_xend": "transactions", "_xabort": "transactions",
		"_wrpkru": "the rights of memory", "_writefsbase_u64": "the thread's own registers", "_writegsbase_u64": "the thread's own registers",
		"_readfsbase_u64": "the thread's own registers", "_readgsbase_u64": "the thread's own registers",
	}),
	prefixes: map[string]string{
		"__builtin_ia32_": "a built-in of the compiler (use the intrinsics `_mm...`)", "_rdrand": "chance", "_rdseed": "chance", "_xsave": "the caller's registers",
		"_xrstor": "the caller's registers", "_xset": "the caller's registers", "_fxsave": "the caller's registers", "_fxrstor": "the caller's registers",
	},
}

// everywhere are the names that no kernel has a use for, on any target.
var everywhere = map[string]string{
	"asm": "assembly", "__asm": "assembly", "__asm__": "assembly",
	"__has_include": "a look at the file system", "__has_include_next": "a look at the file system", "__has_embed": "a look at the file system",
	"__FILE__": "a path", "__BASE_FILE__": "a path", "__TIME__": "the time of the compile", "__DATE__": "the time of the compile", "__TIMESTAMP__": "a time",
	"thread_local": "state between calls", "__thread": "state between calls", "_Thread_local": "state between calls",
	"__declspec": "an attribute in a form that is not read here",
	"alloca":     "memory of unknown size on a stack that is not its own", "__builtin_alloca": "memory of unknown size on a stack that is not its own",
}

// with gives both maps in one.
func with(common, own map[string]string) map[string]string {
	all := make(map[string]string, len(common)+len(own))
	for _, names := range []map[string]string{common, own} {
		for name, why := range names {
			all[name] = why
		}
	}
	return all
}
