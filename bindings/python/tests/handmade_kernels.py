"""The kernels of handmade.py, by overload: KERNELS."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from handmade import Call, Kernel, arg, at, dims, kernel, literal, operand, pointwise, slots_of, unravel


def _x(call: Call) -> str:
    return operand(call, "self")


def _clamped(call: Call) -> str:
    x = _x(call)
    names = {a["name"] for a in call["args"]}
    low, high = ("min_val", "max_val") if "min_val" in names else ("min", "max" if "max" in names else None)
    text = x
    if arg(call, low) is not None:
        text = f"(({text}) < {literal(arg(call, low))} ? {literal(arg(call, low))} : ({text}))"
    if high is not None and arg(call, high) is not None:
        text = f"(({text}) > {literal(arg(call, high))} ? {literal(arg(call, high))} : ({text}))"
    return text


def _gelu(call: Call) -> str:
    x = f"({_x(call)})"
    if arg(call, "approximate") == "tanh":
        return f"0.5f * {x} * (1 + tanhf(0.7978845608f * ({x} + 0.044715f * {x} * {x} * {x})))"
    return f"0.5f * {x} * (1 + erff({x} * 0.70710678118f))"


def _filled(call: Call) -> str:
    value = (
        at("value", slots_of(call)["value"], []) if "value" in slots_of(call) else literal(arg(call, "value"))
    )
    return f"({operand(call, 'mask')}) ? {value} : ({_x(call)})"


UNARY: dict[str, Callable[[Call], str]] = {
    "relu": lambda c: f"({_x(c)}) < 0 ? 0 : ({_x(c)})",
    "clamp_min": _clamped,
    "clamp": _clamped,
    "hardtanh": _clamped,
    "silu": lambda c: f"({_x(c)}) / (1 + expf(-({_x(c)})))",
    "gelu": _gelu,
    "sigmoid": lambda c: f"1 / (1 + expf(-({_x(c)})))",
    "tanh": lambda c: f"tanhf({_x(c)})",
    "exp": lambda c: f"expf({_x(c)})",
    "neg": lambda c: f"-({_x(c)})",
    "rsqrt": lambda c: f"1 / sqrtf({_x(c)})",
    "pow": lambda c: f"powf({_x(c)}, {literal(arg(c, 'exponent'))})",
    "add": lambda c: f"({_x(c)}) + {literal(arg(c, 'alpha'))} * ({operand(c, 'other')})",
    "sub": lambda c: f"({_x(c)}) - {literal(arg(c, 'alpha'))} * ({operand(c, 'other')})",
    "mul": lambda c: f"({_x(c)}) * ({operand(c, 'other')})",
    "div": lambda c: f"({_x(c)}) / ({operand(c, 'other')})",
    "where": lambda c: f"({operand(c, 'condition')}) ? ({_x(c)}) : ({operand(c, 'other')})",
    "masked_fill": _filled,
    "copy": lambda c: operand(c, "src"),
}


def _cat(call: Call) -> Kernel:
    """`i` runs over the output; the list element is found by its range of the joined dimension."""
    out = call["outputs"][0]
    slots = {n: d for n, d in slots_of(call).items() if n.startswith("tensors_")}
    rank = len(out["sizes"])
    axis = arg(call, "dim") % rank
    body, start = unravel("i", out["sizes"]), 0
    for name, d in slots.items():
        index = dims(out)
        index[axis] = f"d{axis} - {start}"
        end = start + d["sizes"][axis]
        body += f"    if (d{axis} >= {start} && d{axis} < {end}) {at('out0', out, dims(out))} = {at(name, d, index)};\n"
        start = end
    return kernel(call, body, "out0_numel")


def _along(call: Call, axes: list[int], fold: str, first: str, last: str) -> Kernel:
    """A reduction of `self` over axes: `i` runs over the output; acc, x and n are in scope of the pieces."""
    x, out = slots_of(call)["self"], call["outputs"][0]
    rank = len(x["sizes"])
    axes = sorted(a % rank for a in (axes or range(rank)))
    kept = [k for k in range(rank) if k not in axes]
    keepdim = len(out["sizes"]) == rank
    body = unravel("i", [x["sizes"][k] for k in kept], "k")
    index = [f"r{k}" if k in axes else f"k{kept.index(k)}" for k in range(rank)]
    count = 1
    for a in axes:
        count *= x["sizes"][a]
    loops = "".join(f"for (i64 r{a} = 0; r{a} < {x['sizes'][a]}; ++r{a}) " for a in axes)
    target = (
        [("0" if k in axes else f"k{kept.index(k)}") for k in range(rank)]
        if keepdim
        else [f"k{j}" for j in range(len(kept))]
    )
    body += f"    double acc = {first};\n    {loops}{{ double x = {at('self', x, index)}; {fold}; }}\n"
    return kernel(
        call, body + f"    {at('out0', out, target)} = {last.replace('COUNT', str(count))};", "out0_numel"
    )


def _softmax(log: bool) -> Callable[[Call], Kernel]:
    def build(call: Call) -> Kernel:
        x, out = slots_of(call)["self"], call["outputs"][0]
        rank = len(x["sizes"])
        axis = arg(call, "dim") % rank
        index = ["r" if k == axis else f"d{k}" for k in range(rank)]
        sizes = [1 if k == axis else s for k, s in enumerate(x["sizes"])]
        loop = f"for (i64 r = 0; r < {x['sizes'][axis]}; ++r)"
        element, target = at("self", x, index), at("out0", out, index)
        body = unravel("i", sizes)
        body += f"    float top = -__builtin_inff(), sum = 0;\n    {loop} if ({element} > top) top = {element};\n    {loop} sum += expf({element} - top);\n"
        body += f"    {loop} {target} = " + (
            f"{element} - top - logf(sum);" if log else f"expf({element} - top) / sum;"
        )
        return kernel(call, body, f"out0_numel / {x['sizes'][axis]}")

    return build


def _cumsum(call: Call) -> Kernel:
    x, out = slots_of(call)["self"], call["outputs"][0]
    axis = arg(call, "dim") % len(x["sizes"])
    index = ["r" if k == axis else f"d{k}" for k in range(len(x["sizes"]))]
    body = unravel("i", [1 if k == axis else s for k, s in enumerate(x["sizes"])])
    body += f"    double acc = 0;\n    for (i64 r = 0; r < {x['sizes'][axis]}; ++r) {{ acc += {at('self', x, index)}; {at('out0', out, index)} = acc; }}"
    return kernel(call, body, f"out0_numel / {x['sizes'][axis]}")


def _topk(call: Call) -> Kernel:
    """The largest of each row in order, none of them equal: each finds its own rank."""
    x, (values, indices) = slots_of(call)["self"], call["outputs"]
    axis = arg(call, "dim") % len(x["sizes"])

    def index(name: str) -> list[str]:
        return [name if k == axis else f"d{k}" for k in range(len(x["sizes"]))]

    n = x["sizes"][axis]
    body = unravel("i", [1 if k == axis else s for k, s in enumerate(x["sizes"])])
    body += f"    for (i64 r = 0; r < {n}; ++r) {{ i64 rank = 0; for (i64 s = 0; s < {n}; ++s) rank += {at('self', x, index('s'))} > {at('self', x, index('r'))};\n"
    body += f"      if (rank < {arg(call, 'k')}) {{ {at('out0', values, index('rank'))} = {at('self', x, index('r'))}; {at('out1', indices, index('rank'))} = r; }} }}"
    return kernel(call, body, f"out0_numel / {arg(call, 'k')}")


def _affine(slots: dict[str, Any], index: list[str]) -> str:
    scale = f" * {at('weight', slots['weight'], index)}" if "weight" in slots else ""
    shift = f" + {at('bias', slots['bias'], index)}" if "bias" in slots else ""
    return f"(x - mean) * rstd{scale}{shift}"


def _layer_norm(call: Call) -> Kernel:
    """Layer norm over the last dimension of a contiguous input."""
    slots = slots_of(call)
    n = slots["input"]["sizes"][-1]
    body = f"    double sum = 0, square = 0;\n    for (i64 r = 0; r < {n}; ++r) sum += input[i * {n} + r];\n    float mean = sum / {n};\n"
    body += f"    for (i64 r = 0; r < {n}; ++r) square += (input[i * {n} + r] - mean) * (input[i * {n} + r] - mean);\n"
    body += f"    float rstd = 1 / sqrtf(square / {n} + {literal(arg(call, 'eps'))});\n    out1[i] = mean; out2[i] = rstd;\n"
    body += f"    for (i64 r = 0; r < {n}; ++r) {{ float x = input[i * {n} + r]; out0[i * {n} + r] = {_affine(slots, ['r'])}; }}"
    return kernel(call, body, "out1_numel")


def _rms_norm(call: Call) -> Kernel:
    slots = slots_of(call)
    n = slots["input"]["sizes"][-1]
    eps = arg(call, "eps")
    body = f"    double square = 0; const float mean = 0;\n    for (i64 r = 0; r < {n}; ++r) square += input[i * {n} + r] * input[i * {n} + r];\n"
    body += f"    float rstd = 1 / sqrtf(square / {n} + {literal(2.0**-23 if eps is None else eps)});\n    out1[i] = rstd;\n"
    body += f"    for (i64 r = 0; r < {n}; ++r) {{ float x = input[i * {n} + r]; out0[i * {n} + r] = {_affine(slots, ['r'])}; }}"
    return kernel(call, body, "out1_numel")


def _group_norm(call: Call) -> Kernel:
    """The leaf, or the composite, which gives no statistics; input and result lie anyhow."""
    slots, groups = (
        slots_of(call),
        arg(call, "num_groups" if _family(call["overload"]) == "group_norm" else "group"),
    )
    x, out = slots["input"], call["outputs"][0]
    sizes = [x["sizes"][1] // groups, *x["sizes"][2:]]
    n, index = math.prod(sizes), [f"i / {groups}", f"i % {groups} * {sizes[0]} + d0", *dims(x)[1:-1]]
    loop = (
        f"    for (i64 r = 0; r < {n}; ++r) {{\n{unravel('r', sizes)}      float x = {at('input', x, index)};"
    )
    body = f"    double sum = 0, square = 0;\n{loop} sum += x; }}\n    float mean = sum / {n};\n"
    body += f"{loop} square += (x - mean) * (x - mean); }}\n"
    body += f"    float rstd = 1 / sqrtf(square / {n} + {literal(arg(call, 'eps'))});\n"
    if len(call["outputs"]) == 3:
        body += "    out1[i] = mean; out2[i] = rstd;\n"
    body += f"{loop} {at('out0', out, index)} = {_affine(slots, [index[1]])}; }}"
    return kernel(call, body, f"input_size0 * {groups}")


def _batch_norm(call: Call) -> Kernel:
    """Batch norm in evaluation. The statistics have elements on CUDA only; every element of a channel writes the same ones."""
    slots = slots_of(call)
    x = slots["input"]
    eps = arg(call, "epsilon" if "cudnn" in call["overload"] else "eps")
    body = unravel("i", x["sizes"]) + f"    float x = {at('input', x, dims(x))}, mean = running_mean[d1];\n"
    body += f"    float rstd = 1 / sqrtf(running_var[d1] + {literal(eps)});\n"
    if call["outputs"][1]["sizes"] == [x["sizes"][1]]:
        body += "    out1[d1] = mean; out2[d1] = rstd;\n"
    return kernel(
        call,
        body + f"    {at('out0', call['outputs'][0], dims(x))} = {_affine(slots, ['d1'])};",
        "out0_numel",
    )


def _pool(call: Call, average: bool) -> Kernel:
    """2-d pooling, no padding, windows inside the input."""
    x, out = slots_of(call)["self"], call["outputs"][0]
    kh, kw = arg(call, "kernel_size")
    sh, sw = arg(call, "stride") or (kh, kw)
    body = unravel("i", out["sizes"]) + "    double sum = 0; float top = -__builtin_inff(); i64 where = 0;\n"
    body += f"    for (i64 a = 0; a < {kh}; ++a) for (i64 b = 0; b < {kw}; ++b) {{ i64 h = d2 * {sh} + a, w = d3 * {sw} + b;"
    body += f" float v = {at('self', x, ['d0', 'd1', 'h', 'w'])}; sum += v; if (v > top) {{ top = v; where = h * {x['sizes'][3]} + w; }} }}\n"
    body += f"    {at('out0', out, dims(out))} = " + (
        f"sum / {kh * kw};"
        if average
        else "top; (void)where;"
        if len(call["outputs"]) == 1
        else f"top; {at('out1', call['outputs'][1], dims(out))} = where;"
    )
    return kernel(call, body, "out0_numel")


def _adaptive(call: Call) -> Kernel:
    x, out = slots_of(call)["self"], call["outputs"][0]
    (h, w), (oh, ow) = x["sizes"][2:], out["sizes"][2:]
    body = (
        unravel("i", out["sizes"])
        + f"    i64 h0 = d2 * {h} / {oh}, h1 = ((d2 + 1) * {h} + {oh - 1}) / {oh};\n"
    )
    body += f"    i64 w0 = d3 * {w} / {ow}, w1 = ((d3 + 1) * {w} + {ow - 1}) / {ow}; double sum = 0;\n"
    body += f"    for (i64 a = h0; a < h1; ++a) for (i64 b = w0; b < w1; ++b) sum += {at('self', x, ['d0', 'd1', 'a', 'b'])};\n"
    return kernel(
        call, body + f"    {at('out0', out, dims(out))} = sum / ((h1 - h0) * (w1 - w0));", "out0_numel"
    )


def _upsample(call: Call) -> Kernel:
    """Twice the size, align_corners false."""
    x, out = slots_of(call)["self"], call["outputs"][0]
    h, w = x["sizes"][2:]
    body = unravel("i", out["sizes"])
    if "nearest" in call["overload"]:
        return kernel(
            call,
            body + f"    {at('out0', out, dims(out))} = {at('self', x, ['d0', 'd1', 'd2 / 2', 'd3 / 2'])};",
            "out0_numel",
        )
    for name, d, size in (("h", "d2", h), ("w", "d3", w)):
        body += f"    float s{name} = (({d} + 0.5f) * 0.5f - 0.5f); if (s{name} < 0) s{name} = 0; i64 {name}0 = s{name};"
        body += f" i64 {name}1 = {name}0 + ({name}0 < {size - 1}); float f{name} = s{name} - {name}0;\n"
    v = {(a, b): at("self", x, ["d0", "d1", f"h{a}", f"w{b}"]) for a in (0, 1) for b in (0, 1)}
    body += f"    {at('out0', out, dims(out))} = (1 - fh) * ((1 - fw) * {v[0, 0]} + fw * {v[0, 1]}) + fh * ((1 - fw) * {v[1, 0]} + fw * {v[1, 1]});"
    return kernel(call, body, "out0_numel")


def _matmul(call: Call) -> Kernel:
    """mm, bmm, addmm (alpha 1): one output element a step."""
    slots, out = slots_of(call), call["outputs"][0]
    left, right = ("mat1", "mat2") if "mat1" in slots else ("self", "mat2")
    batch = dims(out)[:-2]
    row, column = dims(out)[-2:]
    depth = slots[left]["sizes"][-1]
    start = at("self", slots["self"], dims(out)) if "mat1" in slots else "0"
    body = unravel("i", out["sizes"]) + f"    double acc = {start};\n    for (i64 r = 0; r < {depth}; ++r) "
    body += f"acc += (double){at(left, slots[left], [*batch, row, 'r'])} * {at(right, slots[right], [*batch, 'r', column])};\n"
    return kernel(call, body + f"    {at('out0', out, dims(out))} = acc;", "out0_numel")


def _convolution(call: Call) -> Kernel:
    """2-d, stride 1, same size; the dilation equals the padding, 3x3."""
    slots, out = slots_of(call), call["outputs"][0]
    x = "self"
    p = arg(call, "padding")[0]
    c, h, w = slots[x]["sizes"][1:]
    body = unravel("i", out["sizes"]) + f"    double acc = {'bias[d1]' if 'bias' in slots else '0'};\n"
    body += f"    for (i64 c = 0; c < {c}; ++c) for (i64 a = 0; a < 3; ++a) for (i64 b = 0; b < 3; ++b) {{ i64 h = d2 + (a - 1) * {p}, w = d3 + (b - 1) * {p};"
    body += f" if (h >= 0 && h < {h} && w >= 0 && w < {w}) acc += (double){at(x, slots[x], ['d0', 'c', 'h', 'w'])}"
    return kernel(
        call,
        body
        + f" * {at('weight', slots['weight'], ['d1', 'c', 'a', 'b'])}; }}\n    {at('out0', out, dims(out))} = acc;",
        "out0_numel",
    )


def _family(overload: str) -> str:
    """Return the operator's name without form: `aten::relu_` and `aten::relu.out` give `relu`."""
    name = re.sub(r"^aten::", "", overload).partition(".")[0]
    return name.removesuffix("_")


FAMILIES: dict[str, Callable[[Call], Kernel]] = {
    **{name: pointwise(expression) for name, expression in UNARY.items()},
    "cat": _cat,
    "_softmax": _softmax(log=False),
    "_log_softmax": _softmax(log=True),
    "mean": lambda c: _along(c, arg(c, "dim"), "acc += x", "0", "acc / COUNT"),
    "sum": lambda c: _along(c, arg(c, "dim"), "acc += x", "0", "acc"),
    "amax": lambda c: _along(c, arg(c, "dim"), "if (x > acc || x != x) acc = x", "-__builtin_inf()", "acc"),
    "cumsum": _cumsum,
    "topk": _topk,
    "native_layer_norm": _layer_norm,
    "_fused_rms_norm": _rms_norm,
    "native_group_norm": _group_norm,
    "group_norm": _group_norm,
    **dict.fromkeys(
        (
            *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
            "cudnn_batch_norm",
        ),
        _batch_norm,
    ),
    **dict.fromkeys(("max_pool2d", "max_pool2d_with_indices"), lambda c: _pool(c, average=False)),
    "avg_pool2d": lambda c: _pool(c, average=True),
    **dict.fromkeys(("_adaptive_avg_pool2d", "adaptive_avg_pool2d"), _adaptive),
    **dict.fromkeys(("upsample_nearest2d", "upsample_bilinear2d"), _upsample),
    **dict.fromkeys(("mm", "bmm", "addmm"), _matmul),
    **dict.fromkeys(
        ("mkldnn_convolution", "cudnn_convolution", "_slow_conv2d_forward", "slow_conv_dilated2d"),
        _convolution,
    ),
}


class Kernels(dict[str, Callable[[Call], Kernel]]):
    """Overload -> kernel, by its family."""

    def __missing__(self, overload: str) -> Callable[[Call], Kernel]:
        return FAMILIES[_family(overload)]

    def __contains__(self, overload: object) -> bool:
        return isinstance(overload, str) and _family(overload) in FAMILIES


KERNELS = Kernels()
