"""For every operator that a template serves: calls, other valid algorithms, and mistakes that kernels make. Material of test_tolerance.py.

A sample's algorithms take the call's arguments and `up`, which moves a tensor to the type that the algorithm computes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Up = Callable[[Tensor], Tensor]
Algorithm = Callable[..., Any]


@dataclass
class Sample:
    """One call to judge. `good` must pass, `bad` must fail; `bad_only` limits a mistake to the types where it is one."""

    overload: str
    make: Callable[[torch.dtype], list[Any]]
    good: dict[str, Algorithm] = field(default_factory=dict)
    bad: dict[str, Algorithm] = field(default_factory=dict)
    bad_only: dict[str, tuple[torch.dtype, ...]] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        return self.overload.removeprefix("aten::") + (f" {self.note}" if self.note else "")


F32, F64 = torch.float32, torch.float64
HALF = (torch.bfloat16, torch.float16)


def _draw(*sizes: int, seed: int = 0, mean: float = 0.0, std: float = 1.0) -> Callable[[torch.dtype], Tensor]:
    def make(dtype: torch.dtype) -> Tensor:
        chance = torch.Generator().manual_seed(seed)
        return (torch.randn(sizes, generator=chance, dtype=F64) * std + mean).to(dtype)

    return make


def _positive(*sizes: int, seed: int = 0) -> Callable[[torch.dtype], Tensor]:
    return lambda dtype: (_draw(*sizes, seed=seed)(F64).abs() + 0.05).to(dtype)


def _args(*parts: Any) -> Callable[[torch.dtype], list[Any]]:
    return lambda dtype: [p(dtype) if callable(p) else p for p in parts]


x1 = _draw(37, 499)
rows = _draw(48, 331, seed=1)
image = _draw(3, 10, 21, 18, seed=2)
odd = _draw(2, 6, 23, 17, seed=3)

SAMPLES: list[Sample] = []


def add(overload: str, make: Callable[[torch.dtype], list[Any]], **rest: Any) -> None:
    SAMPLES.append(Sample(overload, make, **rest))


# ---- pointwise --------------------------------------------------------------------------------------------------------------------


def _drop_nan_max(x: Tensor, floor: float) -> Tensor:
    return torch.fmax(x, torch.tensor(floor, dtype=x.dtype))


relu = {
    "good": {"maximum": lambda a, up: torch.maximum(a[0], torch.zeros((), dtype=a[0].dtype))},
    "bad": {"drops NaN": lambda a, up: _drop_nan_max(a[0], 0.0)},
}
add("aten::relu", _args(x1), **relu)
add("aten::relu_", _args(x1), **relu)
add("aten::relu.out", _args(x1, x1), **relu)
for form in ("clamp_min", "clamp_min_"):
    add(
        f"aten::{form}",
        _args(x1, 0.25),
        bad={"drops NaN": lambda a, up: _drop_nan_max(a[0], 0.25)},
        good={"where": lambda a, up: torch.where(a[0] < 0.25, torch.tensor(0.25, dtype=a[0].dtype), a[0])},
    )
add(
    "aten::clamp",
    _args(x1, -0.5, 1.25),
    bad={
        "drops NaN": lambda a, up: torch.fmin(
            torch.fmax(a[0], torch.tensor(-0.5, dtype=a[0].dtype)), torch.tensor(1.25, dtype=a[0].dtype)
        ),
        "no upper limit": lambda a, up: a[0].clamp(min=-0.5),
    },
)
add(
    "aten::hardtanh",
    _args(x1, 0.0, 6.0),
    bad={
        "drops NaN": lambda a, up: torch.fmin(_drop_nan_max(a[0], 0.0), torch.tensor(6.0, dtype=a[0].dtype)),
        "relu": lambda a, up: a[0].clamp(min=0),
    },
)
add("aten::neg", _args(x1), good={"product": lambda a, up: -1.0 * a[0]})


def _silu(a: list[Any], up: Up) -> Tensor:
    x = up(a[0])
    return x / (1 + torch.exp(-x))


def _silu_product(a: list[Any], up: Up) -> Tensor:
    x = up(a[0])
    return x * (1 / (1 + torch.exp(-x)))


add(
    "aten::silu",
    _args(_draw(37, 499, std=3)),
    good={"quotient": _silu, "product": _silu_product},
    bad={"hard": lambda a, up: torch.nn.functional.hardswish(a[0])},
)
add("aten::silu_", _args(_draw(37, 499, std=3)), good={"quotient": _silu})
erfc = {"erfc": lambda a, up: 0.5 * up(a[0]) * torch.erfc(-up(a[0]) * math.sqrt(0.5))}


def _rough_erf(x: Tensor) -> Tensor:
    """Abramowitz and Stegun 7.1.25: an absolute error of 2.5e-5. Their 7.1.26, of 1.5e-7, is what eager itself has on CPUs with AVX-512."""
    t = 1 / (1 + 0.47047 * x.abs())
    p = t * (0.3480242 + t * (-0.0958798 + t * 0.7478556))
    return x.sign() * (1 - p * torch.exp(-x * x))


add(
    "aten::gelu",
    _args(_draw(37, 499, std=2), "none"),
    good=erfc,
    bad={
        "tanh form": lambda a, up: torch.nn.functional.gelu(a[0], approximate="tanh"),
        "rough erf": lambda a, up: 0.5 * up(a[0]) * (1 + _rough_erf(up(a[0]) * math.sqrt(0.5))),
    },
    bad_only={"rough erf": (F32, F64), "tanh form": (F32, F64, torch.float16)},
)
add(
    "aten::gelu",
    _args(_draw(37, 499, std=2), "tanh"),
    note="tanh",
    good={
        "inner": lambda a, up: (
            0.5 * up(a[0]) * (1 + torch.tanh(math.sqrt(2 / math.pi) * (up(a[0]) + 0.044715 * up(a[0]) ** 3)))
        )
    },
    bad={"erf form": lambda a, up: torch.nn.functional.gelu(a[0])},
    bad_only={"erf form": (F32, F64, torch.float16)},
)
add(
    "aten::sigmoid",
    _args(_draw(37, 499, std=4)),
    good={"quotient": lambda a, up: 1 / (1 + torch.exp(-up(a[0])))},
    bad={"by tanh": lambda a, up: 0.5 * (1 + torch.tanh(0.5 * up(a[0])))},
    bad_only={"by tanh": (F32, F64)},
)


def _tanh_cancels(a: list[Any], up: Up) -> Tensor:
    e = torch.exp(2 * up(a[0]).clamp(max=20))
    return (e - 1) / (e + 1)


def _tanh_expm1(a: list[Any], up: Up) -> Tensor:
    x = up(a[0])
    e = torch.expm1(-2 * x.abs())
    return (-e / (e + 2)).copysign(x)


add(
    "aten::tanh",
    _args(_draw(37, 499)),
    good={"expm1": _tanh_expm1},
    bad={"cancels at 0": _tanh_cancels},
    bad_only={"cancels at 0": (F32, F64)},
)
add(
    "aten::exp",
    _args(_draw(37, 499, std=4)),
    bad={
        "exp2 of a product": lambda a, up: torch.exp2(up(a[0]) * math.log2(math.e)),
        "flushes denormals": lambda a, up: torch.where(
            torch.exp(up(a[0])) < torch.finfo(a[0].dtype).tiny, 0.0, torch.exp(up(a[0]))
        ),
    },
    bad_only={"exp2 of a product": (F32,), "flushes denormals": (torch.float16,)},
)


def _fast_rsqrt(a: list[Any], up: Up) -> Tensor:
    """Lomont's constant and one step of Newton: a relative error of 1.8e-3."""
    x = a[0].float()
    y = (0x5F375A86 - (x.view(torch.int32) >> 1)).view(F32)
    return y * (1.5 - 0.5 * x * y * y)


add(
    "aten::rsqrt",
    _args(_positive(37, 499)),
    good={
        "root, then quotient": lambda a, up: 1 / torch.sqrt(up(a[0])),
    },
    bad={"fast": _fast_rsqrt, "quotient, then root": lambda a, up: torch.sqrt(1 / up(a[0]))},
    bad_only={"fast": (F32, F64, torch.float16)},
)
add(
    "aten::pow.Tensor_Scalar",
    _args(_draw(37, 499), 2),
    note="2",
    good={"product": lambda a, up: up(a[0]) * up(a[0])},
    bad={"cube": lambda a, up: up(a[0]) ** 3},
)
add(
    "aten::pow.Tensor_Scalar",
    _args(_draw(37, 499), 3),
    note="3",
    good={"products": lambda a, up: up(a[0]) * up(a[0]) * up(a[0])},
)
add("aten::pow.Tensor_Scalar", _args(_positive(37, 499), 0.5), note="0.5")
add("aten::pow_.Scalar", _args(_positive(37, 499), -1.5), bad={"root only": lambda a, up: up(a[0]).rsqrt()})
small = _draw(1, 499, seed=9)
for op, f in (("add", torch.add), ("sub", torch.sub)):
    add(
        f"aten::{op}.Tensor",
        _args(x1, small, 1),
        good={"double": lambda a, up, f=f: f(a[0].double(), a[1].double())},
        bad={"other sign": lambda a, up, f=f: f(a[0], -a[1])},
    )
    add(
        f"aten::{op}.Tensor",
        _args(x1, _draw(37, 499, seed=9), 0.3),
        note="alpha",
        good={
            "two roundings": lambda a, up, f=f: f(
                up(a[0]), up(a[1]) * torch.tensor(0.3, dtype=up(a[1]).dtype)
            )
        },
        bad={"no alpha": lambda a, up, f=f: f(a[0], a[1])},
    )
add("aten::add_.Tensor", _args(x1, _draw(37, 499, seed=9), 1), bad={"assigns": lambda a, up: a[1]})
add("aten::mul.Tensor", _args(x1, small), good={"double": lambda a, up: a[0].double() * a[1].double()})
add(
    "aten::mul.Tensor",
    _args(x1, 0.7),
    note="scalar",
    bad={"rounded scalar": lambda a, up: a[0] * torch.tensor(0.7, dtype=torch.bfloat16).to(a[0].dtype)},
    bad_only={"rounded scalar": (F32, F64, torch.float16)},
)
add(
    "aten::div.Tensor",
    _args(x1, _positive(37, 499, seed=9)),
    good={"double": lambda a, up: a[0].double() / a[1].double()},
    bad={"by reciprocal": lambda a, up: up(a[0]) * (1 / up(a[1]))},
    bad_only={"by reciprocal": (F32, F64)},
)
mask = lambda dtype: torch.rand(37, 499, generator=torch.Generator().manual_seed(5)) < 0.4  # noqa: E731
add(
    "aten::where.self",
    _args(mask, x1, _draw(37, 499, seed=9)),
    good={"index": lambda a, up: a[2].masked_scatter(a[0], a[1][a[0]])},
    bad={
        "other way": lambda a, up: torch.where(a[0], a[2], a[1]),
        "by arithmetic": lambda a, up: a[0] * a[1] + (~a[0]) * a[2],
    },
)
add(
    "aten::masked_fill_.Scalar",
    _args(x1, mask, -math.inf),
    good={"where": lambda a, up: torch.where(a[1], torch.tensor(-math.inf, dtype=a[0].dtype), a[0])},
    bad={"other way": lambda a, up: a[0].masked_fill(~a[1], -math.inf)},
)
add(
    "aten::masked_fill.Scalar", _args(x1, mask, 0.0), note="0", bad={"by product": lambda a, up: a[0] * ~a[1]}
)


# ---- softmax and norms ------------------------------------------------------------------------------------------------------------


def _softmax(a: list[Any], up: Up, log: bool = False) -> Tensor:
    x = up(a[0])
    x = x - x.amax(a[1], keepdim=True)
    e = torch.exp(x)
    total = e.flip(a[1]).sum(a[1], keepdim=True)
    return x - torch.log(total) if log else e / total


def _softmax_online(a: list[Any], up: Up) -> Tensor:
    """One pass over halves: the second half rescales the first."""
    x = up(a[0])
    half = x.shape[a[1]] // 2
    left, right = x.narrow(a[1], 0, half), x.narrow(a[1], half, x.shape[a[1]] - half)
    m1, m2 = left.amax(a[1], keepdim=True), right.amax(a[1], keepdim=True)
    m = torch.maximum(m1, m2)
    scale = lambda mi: torch.where(mi == m, 1.0, torch.exp(mi - m))  # noqa: E731
    safe = lambda part, mi: torch.where(mi == -math.inf, 0.0, torch.exp(part - mi)).sum(a[1], keepdim=True)  # noqa: E731
    total = safe(left, m1) * scale(m1) + safe(right, m2) * scale(m2)
    return torch.exp(x - m) / total


def _softmax_plain(a: list[Any], up: Up) -> Tensor:
    e = torch.exp(up(a[0]))
    return e / e.sum(a[1], keepdim=True)


def _softmax_drops_nan(a: list[Any], up: Up) -> Tensor:
    x = torch.nan_to_num(up(a[0]), nan=-math.inf, posinf=math.inf, neginf=-math.inf)
    return torch.softmax(x, a[1])


logits = _draw(48, 331, seed=1, std=4)
add(
    "aten::_softmax",
    _args(logits, 1, False),
    good={"other order": _softmax, "online": _softmax_online},
    bad={
        "no maximum": _softmax_plain,
        "drops NaN": _softmax_drops_nan,
        "other dim": lambda a, up: torch.softmax(a[0], 0),
    },
)
add(
    "aten::_softmax",
    _args(_draw(4, 40, 60, seed=1, std=4), 1, False),
    note="inner",
    good={"other order": _softmax},
    bad={"no maximum": _softmax_plain},
)
add(
    "aten::_log_softmax",
    _args(logits, 1, False),
    good={"other order": lambda a, up: _softmax(a, up, log=True)},
    bad={"log of softmax": lambda a, up: torch.log(_softmax(a, up))},
)


def _moments(
    x: Tensor, dims: tuple[int, ...], one_pass: bool = False, unbiased: bool = False
) -> tuple[Tensor, Tensor]:
    n = math.prod(x.shape[d] for d in dims)
    mean = x.flip(dims).sum(dims, keepdim=True) / n
    var = (
        (x * x).sum(dims, keepdim=True) / n - mean * mean
        if one_pass
        else (x - mean).square().flip(dims).sum(dims, keepdim=True) / n
    )
    return mean, var * n / (n - 1) if unbiased else var


def _layer_norm(a: list[Any], up: Up, **how: bool) -> tuple[Tensor, ...]:
    x, shape, weight, bias, eps = a
    dims = tuple(range(-len(shape), 0))
    mean, var = _moments(up(x), dims, **how)
    rstd = 1 / torch.sqrt(var + eps)
    out = (up(x) - mean) * rstd
    if weight is not None:
        out = out * up(weight) + up(bias)
    return out, mean, rstd


layer = {
    "good": {"two passes": _layer_norm},
    "bad": {
        "one pass": lambda a, up: _layer_norm(a, up, one_pass=True),
        "n - 1": lambda a, up: _layer_norm(a, up, unbiased=True),
    },
    "bad_only": {"n - 1": (F32, F64, torch.float16), "one pass": (F32, F64, torch.float16)},
}
add(
    "aten::native_layer_norm",
    _args(rows, [331], _draw(331, seed=6, mean=1, std=0.3), _draw(331, seed=7), 1e-5),
    **layer,
)
add(
    "aten::native_layer_norm",
    _args(_draw(40, 8, 16, seed=1, mean=3), [8, 16], None, None, 1e-5),
    note="plain",
    **layer,
)


def _leaf(a: list[Any]) -> list[Any]:
    """The arguments of `native_group_norm` for those of `group_norm`."""
    x, groups, weight, bias, eps, _ = a
    return [x, weight, bias, *x.shape[:2], x[0, 0].numel(), groups, eps]


def _group_norm(a: list[Any], up: Up, **how: bool) -> tuple[Tensor, ...]:
    x, weight, bias, n, c, _, g, eps = a
    grouped = up(x).reshape(n, g, -1)
    mean, var = _moments(grouped, (2,), **how)
    rstd = 1 / torch.sqrt(var + eps)
    out = ((grouped - mean) * rstd).reshape(x.shape)
    return (
        out * up(weight).reshape(1, c, 1, 1) + up(bias).reshape(1, c, 1, 1),
        mean.reshape(n, g),
        rstd.reshape(n, g),
    )


add(
    "aten::native_group_norm",
    _args(
        _draw(6, 16, 11, 12, seed=2, mean=1),
        _draw(16, seed=6, mean=1, std=0.3),
        _draw(16, seed=7),
        6,
        16,
        132,
        4,
        1e-5,
    ),
    good={"two passes": _group_norm},
    bad={
        "one pass": lambda a, up: _group_norm(a, up, one_pass=True),
        "n - 1": lambda a, up: _group_norm(a, up, unbiased=True),
    },
    bad_only={"n - 1": (F32, F64), "one pass": (F32, F64, torch.float16)},
)


add(
    "aten::group_norm",
    _args(
        _draw(6, 16, 11, 12, seed=2, mean=1),
        4,
        _draw(16, seed=6, mean=1, std=0.3),
        _draw(16, seed=7),
        1e-5,
        True,
    ),
    good={"two passes": lambda a, up: _group_norm(_leaf(a), up)[0]},
    bad={
        "one pass": lambda a, up: _group_norm(_leaf(a), up, one_pass=True)[0],
        "n - 1": lambda a, up: _group_norm(_leaf(a), up, unbiased=True)[0],
    },
    bad_only={"n - 1": (F32, F64), "one pass": (F32, F64, torch.float16)},
)


def _rms_norm(a: list[Any], up: Up) -> tuple[Tensor, ...]:
    x, _, weight, eps = a
    y = up(x)
    eps = torch.finfo(F64 if x.dtype is F64 else F32).eps if eps is None else eps
    rstd = 1 / torch.sqrt(y.square().flip(-1).sum(-1, keepdim=True) / y.shape[-1] + eps)
    return y * rstd * up(weight), rstd


add(
    "aten::_fused_rms_norm",
    _args(rows, [331], _draw(331, seed=6, mean=1, std=0.3), 1e-6),
    good={"sum": _rms_norm},
    bad={
        "mean left in": lambda a, up: (
            _layer_norm([a[0], a[1], a[2], torch.zeros_like(a[2]), a[3]], up)[0],
            _rms_norm(a, up)[1],
        )
    },
)
add(
    "aten::_fused_rms_norm",
    _args(rows, [331], _draw(331, seed=6, mean=1, std=0.3), None),
    note="no eps",
    good={"sum": _rms_norm},
)


def _batch_norm(a: list[Any], up: Up, eps: float | None = None) -> tuple[Tensor, ...]:
    x, weight, bias, mean, var = a[:5]
    shape = (1, -1, 1, 1)
    invstd = 1 / torch.sqrt(up(var) + (a[-1] if eps is None else eps))
    out = (up(x) - up(mean).reshape(shape)) * (invstd * up(weight)).reshape(shape) + up(bias).reshape(shape)
    return out, None, None  # the two statistics are empty in evaluation


batch = {
    "good": {"centre, then scale": _batch_norm},
    "bad": {
        "no eps": lambda a, up: _batch_norm(a, up, 0.0),
        "own statistics": lambda a, up: (
            torch.nn.functional.batch_norm(a[0], None, None, a[1], a[2], True),
            None,
            None,
        ),
    },
    "bad_only": {"no eps": (F32, F64)},
}
parameters = (_draw(10, seed=6, mean=1, std=0.3), _draw(10, seed=7), _draw(10, seed=8), _positive(10, seed=9))
add("aten::native_batch_norm", _args(image, *parameters, False, 0.1, 1e-3), **batch)
add("aten::_native_batch_norm_legit", _args(image, *parameters, False, 0.1, 1e-3), **batch)
add("aten::_native_batch_norm_legit_no_training", _args(image, *parameters, 0.1, 1e-3), **batch)


# ---- reductions -------------------------------------------------------------------------------------------------------------------


def _in_steps(x: Tensor, dims: list[int]) -> Tensor:
    """The sum with every partial result rounded to x's own type."""
    moved = x.movedim(dims, list(range(len(dims)))).flatten(0, len(dims) - 1)
    total = moved[0]
    for part in moved[1:]:
        total = total + part
    return total


def _total(a: list[Any], up: Up, mean: bool, keep: int | None = None) -> Tensor:
    x = up(a[0])
    dims = a[1] if a[1] else list(range(x.dim()))
    n = math.prod(x.shape[d] for d in dims)
    total = x.flip(dims).sum(dims, keepdim=a[2])
    return total / (n if keep is None else keep) if mean else total


for name, mean in (("mean.dim", True), ("sum.dim_IntList", False)):
    for dims, note in (([1], "rows"), ([0], "columns"), ([2, 3], "planes"), ([0, 2], "mixed"), ([], "all")):
        source = (
            _draw(60, 331, seed=1, mean=0.2)
            if note in ("rows", "columns")
            else _draw(5, 12, 16, 20, seed=1, mean=0.2)
        )
        bad: dict[str, Algorithm] = {
            "skips one": lambda a, up, m=mean: _total(
                [
                    torch.cat(
                        [
                            a[0].narrow(a[1][0] if a[1] else 0, 0, 1) * 0,
                            a[0].narrow(a[1][0] if a[1] else 0, 1, a[0].shape[a[1][0] if a[1] else 0] - 1),
                        ],
                        a[1][0] if a[1] else 0,
                    ),
                    a[1],
                    a[2],
                ],
                up,
                m,
            )
        }
        if mean:
            bad["one too many"] = lambda a, up: _total(
                a, up, True, math.prod(a[0].shape[d] for d in (a[1] or range(a[0].dim()))) + 1
            )
        bad["adds up in the type itself"] = lambda a, up, m=mean: (
            _in_steps(a[0], a[1] or list(range(a[0].dim())))
            / (math.prod(a[0].shape[d] for d in (a[1] or range(a[0].dim()))) if m else 1)
        )
        only = {
            "one too many": (F32, F64, torch.float16) if note == "rows" else (F32, F64),
            "adds up in the type itself": HALF,
        }
        add(
            f"aten::{name}",
            _args(source, dims, False, None),
            note=note,
            good={"other order": lambda a, up, m=mean: _total(a, up, m)},
            bad=bad,
            bad_only=only,
        )
add(
    "aten::amax",
    _args(rows, [1], False),
    good={"sort": lambda a, up: torch.sort(a[0], 1).values[:, -1]},
    bad={
        "drops NaN": lambda a, up: torch.nan_to_num(
            a[0], nan=-math.inf, posinf=math.inf, neginf=-math.inf
        ).amax(1),
        "of magnitudes": lambda a, up: a[0].abs().amax(1),
    },
)
add("aten::amax", _args(_draw(9, 40, 31, seed=1), [0, 2], True), note="mixed")


def _blocked_cumsum(a: list[Any], up: Up) -> Tensor:
    """Blocks of 16 in double, then the blocks' sums in front of them."""
    x = a[0].double()
    return torch.cat(
        [
            x[..., : i + 16][..., i:].cumsum(-1) + x[..., :i].sum(-1, keepdim=True)
            for i in range(0, x.shape[-1], 16)
        ],
        -1,
    )


def _float_cumsum(a: list[Any], up: Up) -> Tensor:
    out, total = torch.empty_like(a[0]), torch.zeros_like(a[0][..., 0])
    for i in range(a[0].shape[-1]):
        total = total + a[0][..., i]
        out[..., i] = total
    return out


add(
    "aten::cumsum",
    _args(rows, 1, None),
    good={"blocks": _blocked_cumsum},
    bad={
        "in the type itself": _float_cumsum,
        "exclusive": lambda a, up: a[0].cumsum(1) - a[0],
        "reversed": lambda a, up: a[0].flip(1).cumsum(1).flip(1),
    },
    bad_only={"in the type itself": (torch.bfloat16, torch.float16, F32)},
)


# ---- pools and interpolation ------------------------------------------------------------------------------------------------------


def _max_pool(a: list[Any], up: Up, pad: float = -math.inf, last: bool = False) -> tuple[Tensor, Tensor]:
    x, (kh, kw), (sh, sw), (ph, pw) = a[0], a[1], a[2], a[3]
    n, c, h, w = x.shape
    padded = torch.nn.functional.pad(x, (pw, pw, ph, ph), value=pad)
    flat = torch.nn.functional.pad(
        torch.arange(h * w).reshape(1, 1, h, w).expand(n, c, h, w), (pw, pw, ph, ph), value=-1
    )
    windows = (
        padded.unfold(2, kh, sh)
        .unfold(3, kw, sw)
        .reshape(n, c, (h + 2 * ph - kh) // sh + 1, (w + 2 * pw - kw) // sw + 1, kh * kw)
    )
    index = flat.unfold(2, kh, sh).unfold(3, kw, sw).reshape(windows.shape)
    order = torch.where(torch.isnan(windows), math.inf, windows.double())
    key = torch.where(torch.isnan(windows), 2, torch.where(index < 0, 0, 1))
    best, at = torch.zeros_like(order[..., 0]) - math.inf, torch.zeros(order.shape[:-1], dtype=torch.int64)
    state = torch.zeros_like(
        at
    )  # 0 nothing yet, 1 a number, 2 a NaN: eager takes the last NaN, the first of equal numbers
    for k in range(kh * kw):
        value, kind = order[..., k], key[..., k]
        better = (kind == 2) | (
            (kind == 1) & (state < 2) & ((state == 0) | (value > best) | (last & (value == best)))
        )
        best, at, state = (
            torch.where(better, value, best),
            torch.where(better, k, at),
            torch.where(better, kind, state),
        )
    return windows.gather(-1, at[..., None])[..., 0], index.gather(-1, at[..., None])[..., 0]


def _max_pool_drops_nan(a: list[Any], up: Up) -> tuple[Tensor, ...]:
    clean = torch.nan_to_num(a[0], nan=-math.inf, posinf=math.inf, neginf=-math.inf)
    return tuple(torch.ops.aten.max_pool2d_with_indices(clean, *a[1:]))


pool = {
    "good": {"windows": _max_pool},
    "bad": {
        "drops NaN": _max_pool_drops_nan,
        "zero padding": lambda a, up: (
            torch.nn.functional.max_pool2d(torch.nn.functional.pad(a[0], (1, 1, 1, 1)), a[1], a[2]),
            _max_pool(a, up)[1],
        ),
        "last of equals": lambda a, up: _max_pool(a, up, last=True),
    },
}
add("aten::max_pool2d_with_indices", _args(odd, [3, 3], [2, 2], [1, 1], [1, 1], False), **pool)
add(
    "aten::max_pool2d",
    _args(odd, [3, 3], [2, 2], [1, 1], [1, 1], False),
    good={"windows": lambda a, up: _max_pool(a, up)[0]},
    bad={
        "drops NaN": lambda a, up: _max_pool_drops_nan(a, up)[0],
        "zero padding": lambda a, up: pool["bad"]["zero padding"](a, up)[0],
    },
)
add("aten::max_pool2d_with_indices", _args(image, [2, 2], [2, 2], [0, 0], [1, 1], True), note="ceil")


def _avg_pool_in_steps(a: list[Any], up: Up) -> Tensor:
    windows = a[0].unfold(2, a[1][0], a[2][0]).unfold(3, a[1][1], a[2][1])
    return _in_steps(windows, [4, 5]) / (a[1][0] * a[1][1])


def _avg_pool(a: list[Any], up: Up, include: bool | None = None) -> Tensor:
    x, (kh, kw), (sh, sw), (ph, pw) = up(a[0]), a[1], a[2], a[3]
    include = a[5] if include is None else include
    shape = torch.nn.functional.pad(x, (pw, pw, ph, ph))
    ones = torch.nn.functional.pad(torch.ones_like(x), (pw, pw, ph, ph), value=float(include))
    total = shape.unfold(2, kh, sh).unfold(3, kw, sw).flip(-1).sum((-2, -1))
    return total / ones.unfold(2, kh, sh).unfold(3, kw, sw).sum((-2, -1))


add(
    "aten::avg_pool2d",
    _args(odd, [3, 3], [2, 2], [1, 1], False, False, None),
    good={"windows": _avg_pool},
    bad={"wrong divisor at the border": lambda a, up: _avg_pool(a, up, include=True)},
)
add(
    "aten::avg_pool2d",
    _args(odd, [3, 3], [1, 1], [1, 1], False, True, None),
    note="counts padding",
    good={"windows": _avg_pool},
    bad={"wrong divisor at the border": lambda a, up: _avg_pool(a, up, include=False)},
)
add("aten::avg_pool2d", _args(odd, [2, 2], [2, 2], [0, 0], False, True, None), note="exact")
add(
    "aten::avg_pool2d",
    _args(odd, [5, 5], [2, 2], [0, 0], False, True, None),
    note="large",
    good={"windows": _avg_pool},
    bad={"adds up in the type itself": _avg_pool_in_steps},
    bad_only={"adds up in the type itself": HALF},
)


def _adaptive(
    a: list[Any], up: Up, edge: Callable[[int, int, int], int] = lambda i, n, o: -(-(i + 1) * n // o)
) -> Tensor:
    x, (oh, ow) = up(a[0]), a[1]
    h, w = x.shape[-2:]
    cells = [
        [
            x[..., i * h // oh : edge(i, h, oh), j * w // ow : edge(j, w, ow)].flip(-1).mean((-2, -1))
            for j in range(ow)
        ]
        for i in range(oh)
    ]
    return torch.stack([torch.stack(r, -1) for r in cells], -2)


narrow_edge = {"edges rounded down": lambda a, up: _adaptive(a, up, lambda i, n, o: (i + 1) * n // o)}
add("aten::_adaptive_avg_pool2d", _args(odd, [7, 6]), good={"cells": _adaptive}, bad=narrow_edge)
add(
    "aten::_adaptive_avg_pool2d",
    _args(_draw(16, 24, 7, 7, seed=2), [1, 1]),
    note="global",
    good={"cells": _adaptive},
    bad={"divides by 48": lambda a, up: _adaptive(a, up) * 49 / 48},
)
add(
    "aten::upsample_nearest2d",
    _args(odd, [46, 34], None, None),
    good={"index": lambda a, up: a[0].repeat_interleave(2, 2).repeat_interleave(2, 3)},
    bad={"tiles": lambda a, up: a[0].repeat(1, 1, 2, 2)},
)
add(
    "aten::upsample_nearest2d",
    _args(odd, [30, 40], None, None),
    note="odd",
    bad={
        "rounds to nearest": lambda a, up: torch.nn.functional.interpolate(
            a[0].double(), size=(30, 40), mode="nearest-exact"
        )
    },
)


def _bilinear(a: list[Any], up: Up, align: bool | None = None) -> Tensor:
    x, (oh, ow) = up(a[0]), a[1]
    align = a[2] if align is None else align

    def weights(n: int, o: int) -> tuple[Tensor, Tensor, Tensor]:
        i = torch.arange(o, dtype=F64)
        at = i * (n - 1) / (o - 1) if align else ((i + 0.5) * n / o - 0.5).clamp(min=0)
        low = at.floor().long()
        return (
            low,
            (low + 1).clamp(max=n - 1),
            up((at - low).to(a[0].dtype)) if up(a[0]).dtype is a[0].dtype else (at - low).to(x.dtype),
        )

    y0, y1, wy = weights(x.shape[-2], oh)
    x0, x1_, wx = weights(x.shape[-1], ow)
    top = x[..., y0, :] * (1 - wy)[:, None] + x[..., y1, :] * wy[:, None]
    return top[..., x0] * (1 - wx) + top[..., x1_] * wx


for align in (False, True):
    add(
        "aten::upsample_bilinear2d",
        _args(odd, [46, 34], align, None, None),
        note=f"align {align}",
        good={"rows, then columns": _bilinear},
        bad={"other corners": lambda a, up: _bilinear(a, up, not a[2])},
    )

# ---- moves ------------------------------------------------------------------------------------------------------------------------

add(
    "aten::copy_",
    _args(lambda d: torch.zeros(499, 37, dtype=d), lambda d: x1(d).t(), False),
    note="transpose",
    bad={"not transposed": lambda a, up: a[1].t().reshape(499, 37)},
)
add(
    "aten::copy_",
    _args(
        lambda d: torch.zeros(37, 499, dtype=torch.bfloat16 if d is not torch.bfloat16 else F32), x1, False
    ),
    note="converts",
    bad={"truncates": lambda a, up: (a[1].float().view(torch.int32) & ~0xFFFF).view(F32)},
    bad_only={"truncates": (F32, torch.float16, F64)},
)
add(
    "aten::cat",
    _args(lambda d: [x1(d), _draw(37, 20, seed=4)(d), x1(d)], 1),
    bad={"other order": lambda a, up: torch.cat(a[0][::-1], 1)},
)
