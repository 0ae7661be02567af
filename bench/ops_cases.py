"""The calls that bench/ops.py times: operators of real models and hard cases of each family, for a GPU and, smaller, for a processor.

It owns names, shapes and what each call must move. It refuses measuring and goals (ops_goals.py). The 114 cases of `FIRST` bear the names of the
measurement that was made before the project began (ops_first.csv); where a name does not say its shape, it was inferred from the bytes there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Call = Callable[..., Any]
Make = Callable[[str], list[Any]]

# Eager time / kernel time of Kernel Forge on a GB10, as its paper says (arXiv 2607.24762): above 1 is faster than eager.
PAPER = {
    "resnet50 add": 1.257,
    "resnet50 relu": 1.004,
    "resnet50 max_pool2d": 1.212,
    "resnet50 adaptive_avg_pool2d": 1.515,
    "resnet50 conv2d": 0.999,
    "resnet50 batch_norm": 0.992,
    "resnet50 linear": 0.903,
    "sd35 group_norm": 1.699,
    "sd35 layer_norm": 1.049,
    "sd35 silu": 1.052,
    "sd35 linear": 0.495,
    "sd35 attention": 0.021,
    "sd35 conv2d": 0.299,
    "gemma4 softmax": 2.83,
    "qwen35 softmax": 1.54,
}


@dataclass(frozen=True)
class Case:
    """One call.

    make: device -> the tensors of a call.
    call: takes these tensors. native: it is one ATen call.
    group: `first`, `fp16`, `paper`, `model` (between its neighbours) or `host`.
    vendor: a library's convolution, matrix product or attention: nothing is searched for it, eager is kept.
    between: what runs before and after the call in its model: (first tensor -> first tensor, output -> anything). The call keeps its input's shape.
    hidden: bytes that eager writes beside what the call returns: indices of a pooling.
    tuned: the word under which ops_tuned.py looks for a library's kernel.
    """

    name: str
    op: str
    dtype: str
    layout: str
    make: Make
    call: Call
    group: str = "first"
    native: bool = True
    vendor: bool = False
    between: tuple[Call, Call] | None = None
    hidden: int = 0
    paper: str | None = None
    tuned: str | None = None

    @property
    def paper_ratio(self) -> float | None:
        return PAPER[self.paper] if self.paper else None

    def bytes(self) -> int:
        """Return what the call must move: every input read once, every output written once, indices included. Allocates nothing."""
        inputs = self.make("meta")
        with torch.inference_mode():
            outputs = self.call(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return sum(t.numel() * t.element_size() for t in (*inputs, *outputs)) + self.hidden


def t(
    device: str, *sizes: int, dtype: str, last: bool = False, seed: int = 0, off: float = 0.0
) -> torch.Tensor:
    """Return normal numbers of a fixed seed. last: channels_last."""
    if device == "meta":
        made = torch.empty(sizes, device=device, dtype=getattr(torch, dtype))
    else:
        chance = torch.Generator(device=device).manual_seed(seed + 7 * len(sizes))
        made = (torch.randn(sizes, generator=chance, device=device) + off).to(getattr(torch, dtype))
    return made.to(memory_format=torch.channels_last) if last else made


def _tensors(dtype: str, *sizes: Sequence[int], last: bool = False) -> Make:
    """Return what makes tensors of these sizes; those of four dimensions are channels_last with `last`."""

    def make(device: str) -> list[Any]:
        return [t(device, *s, dtype=dtype, last=last and len(s) == 4, seed=i) for i, s in enumerate(sizes)]

    return make


def _norm(x: Sequence[int], n: int, dtype: str, last: bool = False) -> Make:
    return _tensors(dtype, x, (n,), (n,), last=last)


def _batch_norm(x: Sequence[int], dtype: str, last: bool) -> Make:
    def make(device: str) -> list[Any]:
        c = x[1]
        variance = torch.ones(c, device=device, dtype=getattr(torch, dtype))
        scale, shift, mean = (t(device, c, dtype=dtype, seed=i) for i in (1, 2, 3))
        return [t(device, *x, dtype=dtype, last=last), mean, variance, scale, shift]

    return make


def _masked(x: Sequence[int], dtype: str) -> Make:
    return lambda device: [t(device, *x, dtype=dtype), t(device, *x, dtype="float32", seed=1) > 0]


def _transposed(n: int, dtype: str) -> Make:
    return lambda device: [t(device, n, n, dtype=dtype).t()]


# ---- the calls --------------------------------------------------------------------------------------------------------


def batch_norm(x: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
    return F.batch_norm(x, mean, variance, scale, shift, False, 0.1, 1e-5)


def group_norm(x: Any, scale: Any, shift: Any) -> Any:
    return F.group_norm(x, 32, scale, shift, 1e-6)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],), scale, shift, 1e-6)


def rms_norm(x: Any, scale: Any) -> Any:
    return F.rms_norm(x, (x.shape[-1],), scale, 1e-6)


def hf_rms_norm(x: Any, scale: Any) -> Any:
    """As transformers writes it: in float32, cast back, then scaled."""
    wide = x.float()
    return scale * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rope(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def max_pool(x: Any) -> Any:
    return F.max_pool2d(x, 3, 2, 1)


def cat(*parts: Any) -> Any:
    return torch.cat(parts, 1)


def nearest(x: Any) -> Any:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def _softmax(dim: int) -> Call:
    return lambda x: torch.softmax(x, dim)


def _pooled(to: int) -> Call:
    return lambda x: F.adaptive_avg_pool2d(x, to)


def _gelu(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


# ---- the table ----------------------------------------------------------------------------------------------------------


def _maps(dtype: str, last: bool) -> list[Case]:
    """Return the calls on feature maps."""
    layout = "channels_last" if last else "NCHW"
    stem, wide, small, large = (32, 64, 112, 112), (32, 256, 56, 56), (2, 512, 128, 128), (1, 128, 1024, 1024)
    table: list[tuple[str, str, Make, Call, int, str | None]] = [
        ("add", "aten::add", _tensors(dtype, wide, wide, last=last), torch.add, 0, None),
        ("relu", "aten::relu", _tensors(dtype, wide, last=last), torch.relu, 0, None),
        ("batchnorm", "aten::batch_norm", _batch_norm(wide, dtype, last), batch_norm, 0, None),
        (
            "maxpool3s2",
            "aten::max_pool2d",
            _tensors(dtype, stem, last=last),
            max_pool,
            8 * 32 * 64 * 56 * 56,
            None,
        ),
        (
            "adaptive_avgpool1",
            "aten::adaptive_avg_pool2d",
            _tensors(dtype, (32, 2048, 7, 7), last=last),
            _pooled(1),
            0,
            None,
        ),
        (
            "adaptive_avgpool7",
            "aten::adaptive_avg_pool2d",
            _tensors(dtype, (32, 512, 28, 28), last=last),
            _pooled(7),
            0,
            None,
        ),
        (
            "groupnorm32 512x128x128",
            "aten::group_norm",
            _norm(small, 512, dtype, last),
            group_norm,
            0,
            "group_norm",
        ),
        (
            "groupnorm32 128x1024x1024",
            "aten::group_norm",
            _norm(large, 128, dtype, last),
            group_norm,
            0,
            "group_norm",
        ),
        ("silu", "aten::silu", _tensors(dtype, large, last=last), F.silu, 0, None),
        ("upsample2", "aten::upsample_nearest2d", _tensors(dtype, small, last=last), nearest, 0, None),
    ]
    return [
        Case(f"{name} {dtype} cl{last}", op, dtype, layout, make, call, hidden=hidden, tuned=tuned)
        for name, op, make, call, hidden, tuned in table
    ]


_SOFTMAX = [
    (4096, 256),
    (32768, 128),
    (16384, 2048),
    (4096, 8192),
    (256, 32768),
    (64, 262144),
    (64, 151936),
    (8, 1024),
    (1, 1536),
]
_NORMS = [(8666, 1536), (2048, 2048), (4096, 4096), (32768, 768), (1, 1536)]
_ODD = 4097 * 4096 + 1  # elements: an odd number


def _rows(dtype: str) -> list[Case]:
    """Return the calls on rows, and what only moves data."""

    def case(
        name: str, op: str, make: Make, call: Call, native: bool = True, tuned: str | None = None
    ) -> Case:
        return Case(f"{name} {dtype}", op, dtype, "contiguous", make, call, native=native, tuned=tuned)

    def of(*sizes: Sequence[int]) -> Make:
        return _tensors(dtype, *sizes)

    found = [
        case(f"softmax {n}x{m}", "aten::softmax", of((n, m)), _softmax(-1), tuned="softmax")
        for n, m in _SOFTMAX
    ]
    found.append(case("softmax dim1", "aten::softmax", of((2, 16, 1024, 1024)), _softmax(1)))
    for n, m in _NORMS:
        found += [
            case(
                f"layernorm {n}x{m}",
                "aten::layer_norm",
                of((n, m), (m,), (m,)),
                layer_norm,
                tuned="layer_norm",
            ),
            case(f"rmsnorm {n}x{m}", "aten::rms_norm", of((n, m), (m,)), rms_norm, tuned="rms_norm"),
            case(
                f"hf_rmsnorm {n}x{m}",
                "rms_norm of transformers",
                of((n, m), (m,)),
                hf_rms_norm,
                False,
                "rms_norm",
            ),
        ]
    square = (4096, 4096)
    mlp = (8666, 6144)
    return [
        *found,
        case("gelu_tanh", "aten::gelu", of(mlp), _gelu),
        case("silu_mul", "silu, mul", of(mlp, mlp), lambda a, b: F.silu(a) * b, False, "silu_mul"),
        case("gelu odd", "aten::gelu", of((_ODD,)), _gelu),
        case("rope", "rope of transformers", of((1, 16, 2048, 128), (2048, 128), (2048, 128)), rope, False),
        case("sum last8", "aten::sum", of((1 << 22, 8)), lambda x: x.sum(-1)),
        case("mean dim1", "aten::mean", of((32, 1024, 1024)), lambda x: x.mean(1)),
        case("cumsum", "aten::cumsum", of((1 << 18, 256)), lambda x: x.cumsum(-1)),
        case("topk8", "aten::topk", of((4096, 256)), lambda x: tuple(x.topk(8)), tuned="topk"),
        case("transpose copy", "aten::copy_", _transposed(4096, dtype), lambda x: x.contiguous()),
        case("cat", "aten::cat", of(square, square, square), cat),
        case("add bias bcast", "aten::add", of((1 << 16, 1024), (1024,)), torch.add),
        case(
            "masked_fill",
            "aten::masked_fill",
            _masked((8192, 8192), dtype),
            lambda x, m: x.masked_fill(m, -1e4),
        ),
    ]


def first() -> list[Case]:
    """Return the 114 cases that were measured before the project began, in that order."""
    return [c for d in ("bfloat16", "float32") for c in (*_maps(d, False), *_maps(d, True), *_rows(d))]


def find(target: str) -> dict[str, Case]:
    """Return name -> case of a target, `cuda` or `host`."""
    from ops_host import host
    from ops_models import fp16, in_models, paper

    cases = host() if target == "host" else [*first(), *fp16(), *paper(), *in_models()]
    found = {c.name: c for c in cases}
    if len(found) != len(cases):
        raise ValueError("two cases bear one name")
    return found


def family(name: str) -> str:
    """Return a case's family, for tables and plots.

    Example:
        >>> family("softmax 4096x8192 bfloat16"), family("add bias bcast float32"), family("resnet50 add")
        ('softmax', 'add bias bcast', 'resnet50 add')
    """
    words = name.split()
    kept = [w for w in words if not (w.startswith("cl") and w[2:] in ("True", "False"))]
    kept = [w for w in kept if w not in ("bfloat16", "float32", "float16")]
    plain = [w for w in kept if not w[:1].isdigit()]
    return " ".join(plain)


def geomean(values: Sequence[float]) -> float | None:
    """Return the geometric mean, None of nothing.

    Example:
        >>> round(geomean([1.0, 4.0]), 3)
        2.0
    """
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None
