"""The calls that the guard fuzz (bench/guard.py) begins from: one or more for every hooked overload, and a plan for each that can have one.

It owns the list of calls, in a fixed order, and the code of their plans, kept by content in the system's temporary folder. Plans come from two makers:
kernels written by hand (bindings/python/tests/handmade.py) and the product's own templates. It refuses to change a call: that is guard_changes.py.
"""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bindings/python/tests"))

import handmade  # noqa: E402
from handmade_kernels import KERNELS  # noqa: E402
from kernelforge import _core, _ext, _settings, reach  # noqa: E402
from kernelforge._reach_calls import NOT_RUN, variables  # noqa: E402
from kernelforge.referee.calls import DTYPES, overload  # noqa: E402

Call = dict[str, Any]
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Base:
    """A call to begin from (docs/formats.md, `call`). maker: of its plan, `hand`, `template` or "" (none can be made)."""

    call: Call
    maker: str

    @property
    def name(self) -> str:
        """The overload."""
        return str(self.call["overload"])

    @property
    def plan(self) -> str:
        """The id of its plan, as handmade.py has it."""
        return "p-" + hashlib.sha256(_text(self.call).encode()).hexdigest()[:8]


def bases(device: str) -> list[Base]:
    """Return the calls, those of one overload side by side, the overloads in the order of ops.def.

    Args:
        device: `cpu` or `cuda`.
    """
    found: dict[str, list[Base]] = {row["overload"]: [] for row in _ext.load().op_table()}
    samples = reach.samples(device)
    for name in found:
        if name in NOT_RUN and device == "cuda":
            continue  # torch's own kernel breaks the process
        sample = samples.get(name)
        captured = None if sample is None else _captured(name, functools.partial(_made, sample))
        if captured is None:
            found[name].append(Base(_from_schema(name, device), ""))
            continue
        found[name].append(Base(captured, "hand" if name in KERNELS else ""))
    seen = {_text(b.call) for some in found.values() for b in some}
    for name, arguments in _template_calls(device):
        if name not in found:
            continue  # this torch does not hook it
        call = _captured(name, lambda n=name, a=arguments: _ext.load().call(n, list(a)))
        if call is not None and _text(call) not in seen:
            seen.add(_text(call))
            found[name].append(Base(call, "template"))
    return [base for some in found.values() for base in some]


def _made(sample: reach.Sample) -> Any:
    return sample.function()(*sample.arguments())


def _text(call: Call) -> str:
    return json.dumps(call, sort_keys=True)


def _captured(name: str, function: Any) -> Call | None:
    """Return what capture says of the call of this overload inside a function; None if none arrives, or this machine's torch refuses it (NNPACK)."""
    with torch.inference_mode():
        try:
            records = handmade.record(function)
        except RuntimeError:
            return None
    return next((dict(r["call"]) for r in records if r["overload"] == name), None)


def _from_schema(name: str, device: str) -> Call:
    """Return a call of an overload that this device has no kernel for, from its schema: eager's refusal must come out with plans as without."""
    values = variables("cpu")
    small: dict[str, Any] = {"int": 1, "bool": False, "float": 0.0, "number": 1.0}
    args: list[Call] = []
    for argument in overload(name).function._schema.arguments:
        kind = str(argument.type)
        if kind == "Tensor":
            t = values["c"] if argument.name in ("weight",) else values["x"]
            args.append(
                {
                    "name": argument.name,
                    "kind": "tensor",
                    "dtype": "float32",
                    "sizes": list(t.shape),
                    "strides": list(t.stride()),
                }
            )
        elif kind.startswith("Optional"):
            args.append({"name": argument.name, "kind": "none"})
        elif kind.startswith("List[int]"):
            args.append({"name": argument.name, "kind": "ints", "value": [1, 1]})
        else:
            args.append({"name": argument.name, **_plain(kind, small[kind])})
    return {"overload": name, "args": args, "outputs": []}


def _plain(kind: str, value: Any) -> dict[str, Any]:
    if kind == "float":
        return {"kind": "float", "value": value, "bits": "0" * 16}
    if kind == "number":
        return {"kind": "scalar", "type": "float", "value": value, "bits": "3ff0000000000000"}
    return {"kind": kind, "value": value}


def _template_calls(device: str) -> list[tuple[str, list[Any]]]:
    """Return calls whose plans come from templates: layouts and dtypes that the hand-written kernels lack."""
    chance = torch.Generator().manual_seed(5)

    def t(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(sizes, generator=chance).to(dtype).to(device)

    def last(*sizes: int) -> torch.Tensor:
        return t(*sizes).to(memory_format=torch.channels_last)

    calls: list[tuple[str, list[Any]]] = []
    for dtype in FLOATS:
        calls += [
            ("aten::relu", [t(4, 33, dtype=dtype)]),
            ("aten::silu", [t(4, 33, dtype=dtype)]),
            ("aten::add.Tensor", [t(4, 33, dtype=dtype), t(33, dtype=dtype), 1]),
            ("aten::_softmax", [t(6, 48, dtype=dtype), -1, False]),
            ("aten::cat", [[t(3, 8, dtype=dtype), t(3, 5, dtype=dtype)], 1]),
            ("aten::mean.dim", [t(6, 48, dtype=dtype), [-1], True, None]),
        ]
    rows = t(8, 32)
    calls += [
        ("aten::mul.Tensor", [t(4, 33), 3]),
        ("aten::mul.Tensor", [t(4, 66)[:, ::2], t(4, 33)]),
        ("aten::sub.Tensor", [t(), t(7, 9), 1]),
        ("aten::div.Tensor", [t(3, 5, 37).transpose(0, 2), t(37, 5, 3)]),
        ("aten::relu_", [last(2, 8, 6, 5)]),
        ("aten::copy_", [torch.empty(16, 24, device=device), t(24, 16).t(), False]),
        ("aten::masked_fill.Scalar", [t(6, 48), t(48) > 0, -1e4]),
        ("aten::where.self", [t(6, 48) > 0, t(6, 48), t(48)]),
        ("aten::native_layer_norm", [rows, [32], t(32), t(32), 1e-5]),
        ("aten::group_norm", [last(2, 16, 9, 9), 4, t(16), t(16), 1e-5, True]),
        ("aten::group_norm", [last(2, 16, 8, 8).bfloat16(), 2, None, None, 1e-5, True]),
        ("aten::max_pool2d_with_indices", [last(2, 8, 9, 9), [3, 3], [2, 2], [1, 1], [1, 1], False]),
        ("aten::max_pool2d", [last(2, 8, 9, 9), [3, 3], [2, 2], [1, 1], [1, 1], False]),
        ("aten::max_pool2d", [t(2, 8, 9, 9).bfloat16(), [3, 3], [2, 2], [1, 1], [1, 1], False]),
        ("aten::upsample_nearest2d", [last(2, 8, 5, 5), [10, 10], None, None]),
        ("aten::sum.dim_IntList", [t(6, 48), [0], False, None]),
        ("aten::cumsum", [t(6, 48), 1, None]),
        ("aten::topk", [t(6, 48), 5, 1, True, True]),
        ("aten::topk", [t(6, 48).bfloat16(), 3, -1, False, True]),
        (
            "aten::topk.values",
            [
                t(6, 48),
                5,
                1,
                True,
                True,
                torch.empty(6, 5, device=device),
                torch.empty(6, 5, dtype=torch.int64, device=device),
            ],
        ),
        ("aten::gelu", [t(4, 33), "tanh"]),
        ("aten::add.out", [t(4, 33), t(4, 33), 1, torch.empty(4, 33, device=device)]),
        ("aten::tanh.out", [t(6, 8), torch.empty(8, 6, device=device).t()]),
        ("aten::amax", [t(6, 48), [1], False]),
    ]
    return calls


# ---- plans ------------------------------------------------------------------------------------------------------------------------


def plans(known: list[Base], device: str, few: bool = False) -> list[Any]:
    """Return a plan of the extension for every base that has a maker; what is not compiled yet is, two at a time.

    Half of the plans of the host ask for more alignment than elements have, and a quarter is not marked deterministic, so that those rules have work.
    few: leave out the plans of templates but the first dozen (they take a second each to compile).
    """
    ordinal = -1 if device == "cpu" else torch.cuda.current_device()
    made = [b for b in known if b.maker == "hand"]
    templates = [b for b in known if b.maker == "template"]
    made += templates[:12] if few else templates
    lock = threading.Lock()  # the core renders one at a time; compilers run beside each other
    with ThreadPoolExecutor(2) as pool:
        opened = list(pool.map(lambda b: _plan(b, ordinal, lock), made))
    return [plan for plan in opened if plan is not None]


def _plan(base: Base, ordinal: int, lock: threading.Lock) -> Any:
    number = int(hashlib.sha256(_text(base.call).encode()).hexdigest()[:8], 16)
    elements = [DTYPES[d["dtype"]].itemsize for _, d in handmade._named_slots(base.call)]
    align = [16] * len(elements) if ordinal < 0 and number % 2 else elements
    rules = {"align": align, "deterministic": number % 4 != 0}
    if base.maker == "hand":
        made = KERNELS[base.name](base.call)
        source = made.source() if ordinal < 0 else made.cuda_source()
        code = handmade.image(source) if ordinal < 0 else handmade.cubin(source, ordinal)
        return _ext.load().plan_open(handmade.plan_json(base.call, made, ordinal, **rules), code, ordinal)
    if ordinal >= 0:
        return _template_on_cuda(base, ordinal, rules, lock)
    with lock:
        answer = _core.call("template.render", card=_card(base.call))
    if not answer["candidates"]:
        raise RuntimeError(f"make a plan for `{base.name}`: no template applies to {_text(base.call)}")
    candidate = answer["candidates"][0]
    plan = {
        "id": base.plan,
        "call": base.call,
        "spec": candidate["spec"],
        "threads": torch.get_num_threads(),
        "exact": False,
        **rules,
    }
    return _ext.load().plan_open(json.dumps(plan), _compiled(candidate), ordinal)


def _card(call: Call, target: str = "host") -> dict[str, Any]:
    from proving import _bytes, layout_of

    tensors = [
        torch.empty_strided(d["sizes"], d["strides"], device="meta") for _, d in handmade._named_slots(call)
    ]
    count = sum(_bytes(d) for d in [*call["args"], *call["outputs"]])
    variant = {"id": "v0", "call": call, "calls": 1, "eager_us": 10.0, "bytes": count, "roof_us": 1.0}
    threads = torch.get_num_threads() if target == "host" else 0
    return {
        "schema": 1,
        "id": "c-00000000",
        "target": target,
        "overload": call["overload"],
        "layout": layout_of(tensors),
        "threads": threads,
        "share": 0.1,
        "children": [],
        "variants": [variant],
    }


def _compiled(candidate: dict[str, Any]) -> bytes:
    """Return the shared object of a template's candidate, built as the product builds it."""
    from kernels import PRELUDE, _flags

    constants = [f"-D{k}={v}" for k, v in sorted(candidate["spec"]["constants"].items())]
    options = [*_flags(), *constants, f"-I{PRELUDE.parent}"]
    key = hashlib.sha256(
        "\0".join([candidate["source"], PRELUDE.read_text(), *options]).encode()
    ).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / "kernelforge-handmade"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{key}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source, made = Path(scratch) / "k.cc", Path(scratch) / "k.so"
            source.write_text(candidate["source"])
            compiler = _settings.compiler() or "g++"
            done = subprocess.run(
                [compiler, *options, str(source), "-o", str(made)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise RuntimeError(f"compile the template `{candidate['family']}`: {done.stderr[:2000]}")
            made.replace(target)
    return target.read_bytes()


def _template_on_cuda(base: Base, ordinal: int, rules: dict[str, Any], lock: threading.Lock) -> Any:
    import rendering
    from kernelforge._place import Place

    place = Place(ordinal)
    with lock:
        candidates = rendering.render(_card(base.call, "cuda"), place)
        if not candidates:
            raise RuntimeError(f"make a plan for `{base.name}`: no template applies to {_text(base.call)}")
        rendering.compile_all(candidates[:1], place)
    plan = {
        "id": base.plan,
        "call": base.call,
        "spec": candidates[0]["spec"],
        "exact": False,
        **rules,
    }
    return _ext.load().plan_open(json.dumps(plan), rendering._cubins[rendering._key(candidates[0])], ordinal)
