"""The calls that bench/dispatch.py times, with a hand-written kernel for each, and plans made of them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = """
typedef long long i64;
union kf_arg { void* p; i64 i; double f; };
extern "C" float expf(float);
extern "C" float sqrtf(float);
extern "C" __attribute__((visibility("default"))) void kf_main(i64 begin, i64 end, const kf_arg* a) {
  %s
}
"""
CUDA_SOURCE = """
typedef long long i64;
extern "C" __global__ void kf_main(%s) {
  %s
}
"""
# The same kernels for a device: parameters and body. One block; the norm is one thread's, for its row is four elements.
CUDA_KERNELS = {
    "aten::sigmoid": (
        "const float* x, float* o, i64 n",
        "i64 i = threadIdx.x; if (i < n) o[i] = 1 / (1 + expf(-x[i]));",
    ),
    "aten::add.Tensor": (
        "const float* x, const float* y, float* o, i64 n",
        "i64 i = threadIdx.x; if (i < n) o[i] = x[i] + y[i];",
    ),
    "aten::native_layer_norm": (
        "const float* x, const float* w, const float* b, float* o, float* mean, float* rstd, i64 n",
        """if (threadIdx.x != 0) return;
  float s = 0, q = 0;
  for (i64 i = 0; i < n; ++i) s += x[i];
  for (i64 i = 0; i < n; ++i) q += (x[i] - s / n) * (x[i] - s / n);
  float r = 1 / sqrtf(q / n + 1e-5f);
  for (i64 i = 0; i < n; ++i) o[i] = (x[i] - s / n) * r * w[i] + b[i];
  *mean = s / n;
  *rstd = r;""",
    ),
}
# overload -> (arguments by the number of columns, kernel, its slots). The smallest tensors: a hit and eager then differ by host cost alone.
OVERLOADS: dict[str, tuple[str, str, list[str]]] = {
    "aten::sigmoid": (
        "[torch.ones(1, n)]",
        "float *x = (float*)a[0].p, *o = (float*)a[1].p; for (i64 i = begin; i < end; ++i) o[i] = 1 / (1 + expf(-x[i]));",
        ["self", "out0"],
    ),
    "aten::add.Tensor": (
        "[torch.ones(1, n), torch.ones(1, n)]",
        "float *x = (float*)a[0].p, *y = (float*)a[1].p, *o = (float*)a[2].p; for (i64 i = begin; i < end; ++i) o[i] = x[i] + y[i];",
        ["self", "other", "out0"],
    ),
    "aten::native_layer_norm": (
        "[torch.arange(float(n)).view(1, n), [n], torch.ones(n), torch.ones(n), 1e-5]",
        """float *x = (float*)a[0].p, *w = (float*)a[1].p, *b = (float*)a[2].p, *o = (float*)a[3].p; i64 n = a[6].i;
  for (i64 r = begin; r < end; ++r) {
    float s = 0, q = 0;
    for (i64 i = 0; i < n; ++i) s += x[r * n + i];
    for (i64 i = 0; i < n; ++i) q += (x[r * n + i] - s / n) * (x[r * n + i] - s / n);
    float rstd = 1 / sqrtf(q / n + 1e-5f);
    for (i64 i = 0; i < n; ++i) o[r * n + i] = (x[r * n + i] - s / n) * rstd * w[i] + b[i];
    ((float*)a[4].p)[r] = s / n;
    ((float*)a[5].p)[r] = rstd;
  }""",
        ["input", "weight", "bias", "out0", "out1", "out2"],
    ),
}
COLUMNS = 4  # of the timed call


def compile_kernel(source: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernel.so"
        flags = "-x c++ -std=c++20 -O3 -march=native -fPIC -shared -nostartfiles -fno-exceptions -fno-rtti -fno-math-errno -fvisibility=hidden"
        links = "-Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now"
        subprocess.run(
            ["g++", *flags.split(), *links.split(), "-o", str(made), "-", "-lm"],
            input=source,
            text=True,
            check=True,
        )
        return made.read_bytes()


def compile_for_device(overload: str) -> bytes:
    """Return the cubin of an overload's kernel for device 0."""
    import torch

    sys.path.append(str(Path(__file__).resolve().parents[1] / "bindings/python/tests"))
    import nvrtc

    return nvrtc.compile(
        CUDA_SOURCE % CUDA_KERNELS[overload], nvrtc.arch_of(torch.cuda.get_device_capability(0))
    )


def plans_for(module: Any, overload: str, columns: list[int], device: str) -> list[Any]:
    """Return a plan of the hand-written kernel for each width."""
    text, kernel, slots = OVERLOADS[overload]
    cuda = device != "cpu"
    image = compile_for_device(overload) if cuda else compile_kernel(SOURCE % kernel)
    args: list[dict[str, str]] = [{"slot": s} for s in slots]
    if cuda:
        args.append({"int": "out0_numel", "type": "i64"})
        launch: dict[str, Any] = {"grid": ["1", "1", "1"], "block": ["128", "1", "1"], "smem": "0"}
    else:
        rows = "layer_norm" in overload
        args += [{"int": "normalized_shape_0"}] if rows else []
        launch = {"work": "1" if rows else "out0_numel", "grain": "1024"}
    plans = []
    for n in columns:
        module.capture_begin()
        module.call(overload, arguments(text, n, device))
        (record,) = module.capture_end()
        plan = {
            "id": f"p-{overload.split('::')[1]}-{n}",
            "call": record["call"],
            "align": [4] * len(slots),
            "deterministic": True,
            "exact": False,
            "spec": {
                "schema": 1,
                "constants": {},
                "workspaces": [],
                "kernels": [{"entry": "kf_main", **launch, "args": args}],
            },
        } | ({} if cuda else {"threads": 1})
        plans.append(module.plan_open(json.dumps(plan), image, device))
    return plans


def arguments(text: str, n: int, device: str = "cpu") -> list[Any]:
    import torch

    with torch.device(device):
        made: list[Any] = eval(text, {"torch": torch, "n": n})
    return made
