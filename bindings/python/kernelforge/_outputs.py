"""How far a model's outputs with plans are from eager's: bitwise equal, or the largest difference relative to the tensor's largest value.

The referee holds both against a model in float64 (`referee/model.py`); the limits here speak where that cannot be run.
"""

from __future__ import annotations

from typing import Any

# Relative to the largest absolute value of the tensor. 64 unit roundoffs of float32 is 4e-6; a network of some hundred layers stays below 1e-3
# unless something is wrong; half precision carries 2^-8 (bfloat16) or 2^-11 a rounding.
_LIMIT = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}

# Status of outputs that do not speak against plans. `not_compared`: nothing is claimed about them, and the detail says why; plans of operators
# then stand on their own evidence.
OUTPUTS_PASS = ("ok", "not_compared")
_NOT_COMPARED = "not compared: "
NOT_REPEATED = _NOT_COMPARED + "the model does not repeat itself, two eager forwards differ"


def told(status: str, detail: str) -> dict[str, str]:
    """Return {"status", "detail"} of a report. The core's answers know no `not_compared`: there it is an `ok` whose detail says so."""
    return {"status": "not_compared" if detail.startswith(_NOT_COMPARED) else status, "detail": detail}


def parts_of(tensor: Any) -> list[Any]:
    """Return the dense real tensors that a tensor's values are: itself, a sparse one filled in, a nested one's parts, real and imaginary part.

    Raises:
        Incomparable: it has no values that can be read (meta), or is of a kind that does not turn into dense tensors.
    """
    import torch

    try:
        if tensor.is_nested:
            return [part for t in tensor.unbind() for part in parts_of(t)]
        if tensor.is_quantized:
            tensor = tensor.dequantize()
        if tensor.layout is not torch.strided:
            tensor = tensor.to_dense()
        if tensor.is_meta:
            raise Incomparable("an output of the model is on the device `meta`, without values")
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        if tensor.dtype.is_floating_point and _dtype(tensor) not in _LIMIT:  # float8
            tensor = tensor.to(torch.bfloat16)
        tensor = tensor.resolve_neg()
        torch.equal(tensor, tensor)
    except Incomparable:
        raise
    except Exception as e:  # a subclass may refuse in its own way
        words = str(e).splitlines() or [type(e).__name__]
        kind = f"{type(tensor).__name__}, {_dtype(tensor)}, {str(tensor.layout).removeprefix('torch.')}"
        raise Incomparable(f"an output of the model cannot be compared ({kind}): {words[0]}") from e
    return [tensor]


class Incomparable(Exception):
    """Outputs that cannot be held against each other; the text says why."""

    @property
    def detail(self) -> str:
        return _NOT_COMPARED + str(self)


def compare_tensors(eager: list[Any], ours: list[Any]) -> dict[str, Any]:
    """Return {"status": "ok", "wrong_value" or "wrong_shape", "detail", "exact", "worst"} of two lists of tensors."""
    import torch

    if len(eager) != len(ours) or any(
        a.shape != b.shape or a.dtype != b.dtype for a, b in zip(eager, ours, strict=False)
    ):
        return {
            "status": "wrong_shape",
            "detail": "outputs have other shapes or types than eager's",
            "exact": False,
            "worst": None,
        }
    if not eager:
        return {"status": "ok", "detail": "the model returns no tensor", "exact": True, "worst": 0.0}
    worst, exact, status = 0.0, True, "ok"
    for a, b in zip(eager, ours, strict=True):
        if torch.equal(a, b) or (
            a.is_floating_point()
            and torch.equal(a.isnan(), b.isnan())
            and torch.equal(a.nan_to_num(), b.nan_to_num())
        ):
            continue
        exact = False
        if not a.is_floating_point():
            return {
                "status": "wrong_value",
                "detail": f"an output of type {_dtype(a)} differs from eager's",
                "exact": False,
                "worst": None,
            }
        if not torch.equal(a.isfinite(), b.isfinite()):
            return {
                "status": "wrong_value",
                "detail": "infinities or NaN stand where eager has none, or the reverse",
                "exact": False,
                "worst": None,
            }
        x, y = a.double().nan_to_num(), b.double().nan_to_num()
        relative = float((x - y).abs().max() / x.abs().max().clamp_min(torch.finfo(a.dtype).tiny))
        worst = max(worst, relative)
        if relative > _LIMIT[_dtype(a)]:
            status = "wrong_value"
    if exact:
        return {"status": "ok", "detail": "bitwise equal to eager", "exact": True, "worst": 0.0}
    return {
        "status": status,
        "detail": f"largest difference from eager {worst:.1e} of the output's largest value",
        "exact": False,
        "worst": worst,
    }


def _dtype(t: Any) -> str:
    return str(t.dtype).removeprefix("torch.")
