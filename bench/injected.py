"""Candidates that bring a fault with them, for bench/faults.py: one operator (relu, float32), host C++ and CUDA.

They are judged with the gate `policy` switched off, so that what a source may not even say still runs: traps and system calls in machine code on the host,
traps, output and allocation on the device. What the other gates refuse stays refused; that is a way of being contained too. `statuses` are the
verdicts that are right; a fault that ends otherwise has not been contained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_HOST = """KF_ENTRY void kf_main(int64_t begin, int64_t end, const kf_arg* args) {
  const float* x = (const float*)args[0].p; float* y = (float*)args[1].p;
"""
_CUDA = """extern "C" __global__ void kf_main(const float* x, float* y, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
"""
# A system call in machine code (x86-64): the compile makes `asm` a word that does not compile, whatever the policy says.
_SYSCALL = """static const unsigned char kf_code[] __attribute__((section(".text"))) = {
  0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x48, 0x89, 0xca, 0x4d, 0x89, 0xc2, 0x0f, 0x05, 0xc3};
#define kf_system ((long (*)(long, long, long, long, long))(const void*)kf_code)
"""


@dataclass(frozen=True)
class Injected:
    name: str
    statuses: tuple[str, ...]
    source: str
    spec: dict[str, Any]


def _host_spec(grain: int = 16384, **more: Any) -> dict[str, Any]:
    kernel = {
        "entry": "kf_main",
        "work": "out0_numel",
        "grain": str(grain),
        "args": [{"slot": "self"}, {"slot": "out0"}],
    }
    return {
        "schema": 1,
        "constants": {},
        "workspaces": more.pop("workspaces", []),
        "kernels": [{**kernel, **more}],
    }


def _cuda_spec(block: int = 256, **more: Any) -> dict[str, Any]:
    args = [{"slot": "self"}, {"slot": "out0"}, {"int": "out0_numel", "type": "i64"}]
    kernel = {
        "entry": "kf_main",
        "grid": [f"ceildiv(out0_numel, {block})", "1", "1"],
        "block": [str(block), "1", "1"],
        "smem": "0",
        "args": args,
    }
    return {
        "schema": 1,
        "constants": {},
        "workspaces": more.pop("workspaces", []),
        "kernels": [{**kernel, **more}],
    }


def _host(name: str, statuses: str, body: str, before: str = "", **spec: Any) -> Injected:
    return Injected(name, tuple(statuses.split()), before + _HOST + body + "\n}\n", _host_spec(**spec))


def _cuda(name: str, statuses: str, body: str, before: str = "", **spec: Any) -> Injected:
    return Injected(name, tuple(statuses.split()), before + _CUDA + body + "\n}\n", _cuda_spec(**spec))


_ALL = "for (int64_t i = begin; i < end; ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;"
_SLOW = "((const volatile float*)x)[i]"
_ONE = "if (i < n) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;"
_WORKSPACE = [{"bytes": str(100 << 30), "zeroed": True}]
_DEAD = "crash timeout rejected"

HOST = (
    _host(
        "illegal_access",
        "crash",
        "for (int64_t i = begin; i < end; ++i) *(volatile float*)(y + (i << 20)) = x[i];",
    ),
    _host("segfault", "crash", "*(volatile int*)8 = (int)(x[begin] + y[begin]);"),
    _host("trap", "crash", "if (begin >= 0) __builtin_trap(); y[begin] = x[begin];"),
    _host("infinite_loop", "timeout", "for (volatile int64_t i = begin;; i = i) y[begin] = x[begin];"),
    _host(
        "printf_flood",
        "crash timeout",
        "for (;;) kf_system(1, 2, (long)x, 1 << 16, 0), kf_system(1, 1, (long)x, 1 << 16, 0), y[begin] = 0;",
        _SYSCALL,
    ),
    _host("allocation_100gb", "launch_error", _ALL, workspaces=_WORKSPACE),
    _host("huge_grid", "launch_error", _ALL, work=str(1 << 62), grain=1),
    _host("huge_grid_runs", "crash", _ALL, work=str(1 << 47), grain=1),
    _host(
        "stack_overflow",
        "crash",
        "y[begin] = x[begin] + kf_deep((int)begin + 1);",
        "static __attribute__((noinline)) int kf_deep(int n) { volatile int frame[1024]; frame[n & 1023] = n; return n == 0 ? 0 : kf_deep(n + 1) + frame[1]; }\n",
    ),
    # 400 processes at most: contained or not, the machine must live. Each waits as long as it can.
    _host(
        "fork_bomb",
        _DEAD,
        "for (int i = 0; i < 400; ++i) if (kf_system(57, 0, 0, 0, 0) == 0) { kf_system(109, 0, 0, 0, 0); for (;;) kf_system(34, 0, 0, 0, 0); }\n"
        "  for (;;) y[begin] = x[begin];",
        _SYSCALL,
    ),
    _host("exit", "crash rejected", "kf_system(231, 0, 0, 0, 0); y[begin] = x[begin];", _SYSCALL),
    _host(
        "closed_stream",
        _DEAD,
        "for (int i = 0; i < 64; ++i) kf_system(3, i, 0, 0, 0);\n  for (;;) y[begin] = x[begin];",
        _SYSCALL,
    ),
)

CUDA = (
    _cuda("illegal_access", "crash", "if (i < n) ((volatile float*)y)[(i + n) << 12] = x[i];"),
    _cuda("misaligned_access", "crash", "if (i < n) *(volatile double*)((char*)y + 1) = x[i];"),
    _cuda("trap", "crash rejected", "if (i == 0) __trap();"),
    _cuda(
        "infinite_loop", "timeout", "for (;;) ((volatile float*)y)[0] = ((const volatile float*)x)[i & 1];"
    ),
    _cuda(
        "printf_flood",
        "crash timeout rejected compile_error",
        'for (int k = 0; k < 1 << 20; ++k) printf("%lld %d\\n", i, k);',
    ),
    _cuda("allocation_100gb", "launch_error", _ONE, workspaces=_WORKSPACE),
    _cuda(
        "device_malloc",
        "crash timeout rejected compile_error wrong_value",
        "for (;;) { float* p = (float*)malloc(1 << 20); if (!p) break; p[0] = x[0]; y[0] = p[0]; }",
    ),
    _cuda("huge_grid", "launch_error", _ONE, grid=["ceildiv(out0_numel, 256)", "65536", "1"]),
    _cuda("huge_grid_runs", "timeout ok wrong_value", _ONE, grid=[str((1 << 31) - 1), "1", "1"]),
    _cuda(
        "stack_overflow",
        "crash launch_error timeout wrong_value compile_error",
        "y[i < n ? i : 0] = kf_deep((int)i + 1);",
        "__device__ __noinline__ int kf_deep(int n) { volatile int frame[512]; frame[n & 511] = n; return n == 0 ? 0 : kf_deep(n + 1) + frame[1]; }\n",
    ),
    _cuda("exhausted_smem", "launch_error", _ONE, smem=str(1 << 20)),
)

FAULTS = {"host": HOST, "cuda": CUDA}


def candidate(source: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a candidate as the core reads it: docs/formats.md, `candidate`. The core gives it its id."""
    return {
        "id": "",
        "author": "person",
        "family": "",
        "params": {},
        "change": "",
        "source": source,
        "spec": spec,
    }


def good(target: str, number: int, *, compiled: bool = False) -> dict[str, Any]:
    """Return a candidate that is right and slower than eager, so that a study judges all of them and confirms none; each number is another one.

    compiled: the compiler is asked for each, else for the first only.
    """
    comment = f"// {number}\n" if compiled else ""
    if target == "host":
        return candidate(
            comment + _HOST + _ALL.replace("x[i]", _SLOW) + "\n}\n", _host_spec(grain=4096 + number)
        )
    slow = (
        "float v = 0; for (int k = 0; k < 16; ++k) if (i < n) v = ((const volatile float*)x)[i];\n  "
        + _ONE.replace("x[i]", "v")
    )
    return candidate(
        comment + _CUDA + slow + "\n}\n",
        _cuda_spec(workspaces=[{"bytes": str(64 + number), "zeroed": False}]),
    )
