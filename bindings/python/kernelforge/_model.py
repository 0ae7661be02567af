"""Which model a command is about: `file.py:factory`, `package.module:callable`, or a built-in name through torchvision.

It owns finding, importing and calling the factory. It refuses to judge the model: a model that raises is the profile's error.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .errors import EnvironmentFault, KernelForgeError, ModelFault, UsageFault

DTYPES = ("float32", "bfloat16", "float16", "float64")
SHORT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
_FACTORY_HINT = "return (model, (input, ...)), for example `return model, (torch.randn(1, 3, 224, 224),)`"


@dataclass(frozen=True)
class Wanted:
    """The model options of the command line."""

    spec: str
    batch: int | None = None
    dtype: str = "float32"
    channels_last: bool = False
    device: str = "cpu"
    seed: int = 0

    @property
    def name(self) -> str:
        """A short name for studies and reports: `googlenet-b4`, `my_model-make`."""
        base = self.spec
        if ":" in base:
            where, factory = base.rsplit(":", 1)
            base = f"{Path(where).stem if where.endswith('.py') else where}-{factory}"
        parts = [base]
        if self.batch is not None:
            parts.append(f"b{self.batch}")
        if self.dtype != "float32":
            parts.append(self.dtype)
        if self.channels_last:
            parts.append("nhwc")
        return "-".join(parts).replace("/", "-")


@dataclass(frozen=True)
class Made:
    """A model ready to run: `model(*inputs)`; `note` says what the reader must know about it (random weights)."""

    model: Any
    inputs: Any
    name: str
    note: str


def make(wanted: Wanted) -> Made:
    """Return the model and inputs that a command line names.

    Raises:
        UsageFault: the name, the factory or what it returns is not as expected.
        ModelFault: the file does not import, the factory raised, or the model does not fit on the device.
        EnvironmentFault: torchvision or the device is missing.
    """
    check_device(wanted.device)
    if ":" in wanted.spec:
        model, inputs = _from_factory(wanted)
        with _users_code(f"move `{wanted.spec}` to {wanted.device}"):
            return Made(_moved(model, wanted.device), _moved(inputs, wanted.device), wanted.name, "")
    if wanted.spec.endswith(".py") or "/" in wanted.spec:
        raise UsageFault(
            f"find the model `{wanted.spec}`: no factory is named",
            hint=f"write `{wanted.spec}:factory`; it must {_FACTORY_HINT}",
        )
    return _built_in(wanted)


def check_device(device: str) -> None:
    """Refuse devices that there is no target for, or that this machine does not have."""
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()) or device == "cpu:":
        raise EnvironmentFault(
            f"use the device `{device}`: no target serves it (expected `cpu`, the host target, `cuda` or `cuda:0`)",
            hint="run with `--device cpu`",
        )
    if kind == "cpu":
        return
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count <= int(number or 0):
        seen = f"torch sees {count or 'no'} CUDA device{'' if count == 1 else 's'}"
        found = "torch is built without CUDA" if torch.version.cuda is None else seen
        raise EnvironmentFault(
            f"use the device `{device}`: {found}",
            hint="`kernelforge doctor` says what is in the way (driver, CUDA_VISIBLE_DEVICES); or run with `--device cpu`",
        )


def _moved(value: Any, device: str) -> Any:
    """Return a model or inputs on the device. What a factory made there stays; on `cpu` nothing is moved: a factory may have chosen its own."""
    import torch

    if device == "cpu":
        return value
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return value.to(device)
    if isinstance(value, dict):
        return {k: _moved(v, device) for k, v in value.items()}
    return type(value)(_moved(v, device) for v in value) if type(value) in (tuple, list) else value


def _from_factory(wanted: Wanted) -> tuple[Any, Any]:
    where, name = wanted.spec.rsplit(":", 1)
    if not where.endswith(".py") and not all(part.isidentifier() for part in where.split(".")):
        raise UsageFault(
            f"find the model `{wanted.spec}`: `{where}` is neither a Python file nor the name of a module",
            hint="write `file.py:factory` or `package.module:callable`",
        )
    module = _module(where)
    factory: Any = module
    for part in name.split("."):
        factory = getattr(factory, part, None)
    if not callable(factory):
        found = (
            ", ".join(sorted(n for n, v in vars(module).items() if inspect.isfunction(v))) or "no function"
        )
        raise UsageFault(
            f"find `{name}` in `{where}`: it is not there (found {found})",
            hint=f"the factory must {_FACTORY_HINT}",
        )
    arguments = _arguments(factory, wanted)
    with _users_code(f"call `{wanted.spec}`"):
        made = factory(**arguments)
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0])):
        raise UsageFault(
            f"call `{wanted.spec}`: it returned {_describe(made)} (expected a model and its inputs)",
            hint=_FACTORY_HINT,
        )
    return made


def _describe(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


def _arguments(factory: Callable[..., Any], wanted: Wanted) -> dict[str, Any]:
    """Pass the options that were given to the parameters of the same name; one that has no taker is an error, never ignored."""
    given: dict[str, Any] = {}
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some built-in functions do not tell
        parameters = MappingProxyType({})
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if wanted.device != "cpu" and "device" in parameters:  # one that does not ask for it is moved afterwards
        given["device"] = wanted.device
    if wanted.batch is not None:
        given["batch"] = wanted.batch
    if wanted.dtype != "float32":
        import torch

        given["dtype"] = getattr(torch, wanted.dtype)
    if wanted.channels_last:
        given["channels_last"] = True
    for name in given:
        if not open_ended and name not in parameters:
            option = "--" + name.replace("_", "-")
            raise UsageFault(
                f"pass {option} to `{wanted.spec}`: it has no parameter `{name}`",
                hint=f"add `{name}` to the factory or leave {option} out",
            )
    return given


def _module(where: str) -> Any:
    if where.endswith(".py"):
        path = Path(where).expanduser().absolute()
        if not path.is_file():
            raise UsageFault(
                f"read the model file `{where}`: it does not exist",
                hint="give the path of a Python file, as in `models/mine.py:factory`",
            )
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise UsageFault(f"read the model file `{where}`: Python cannot import it")
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        sys.path.insert(0, str(path.parent))
        try:
            with _users_code(f"import the model file `{where}`"):
                spec.loader.exec_module(module)
        except BaseException:
            if sys.modules.get(path.stem) is module:  # nobody may find half a module
                del sys.modules[path.stem]
            raise
        return module
    sys.path.insert(0, "")
    try:
        return importlib.import_module(where)
    except (Exception, SystemExit) as e:
        name = e.name if isinstance(e, ModuleNotFoundError) else None
        if name is not None and (where == name or where.startswith(f"{name}.")):
            raise UsageFault(
                f"import the module `{where}`: no module named `{name}`",
                hint="is it installed here, or is this the wrong folder?",
            ) from e
        raise _fault_of(f"import the module `{where}`", e) from e


@contextlib.contextmanager
def _users_code(what: str) -> Iterator[None]:
    """Turn what the user's code raises into one error."""
    try:
        yield
    except KernelForgeError:
        raise
    except (Exception, SystemExit) as e:  # a script without a main guard may end itself
        raise _fault_of(what, e) from e


def _fault_of(what: str, e: BaseException) -> ModelFault:
    """Return an exception of the user's code as an error: its last line, and the line of the user's that it came from."""
    lines = traceback.format_exception_only(e)[-1].strip().splitlines()
    place = _place_of(e)
    return ModelFault(
        f"{what}: {lines[0]}{f' (at {place})' if place else ''}",
        hint="`-v` shows the whole traceback; try it in Python alone",
    )


def _place_of(e: BaseException) -> str:
    """Return `file:line` of the deepest frame that is neither ours nor an installed package's; "" if there is none."""
    if isinstance(e, SyntaxError) and e.filename:
        return f"{e.filename}:{e.lineno}"
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    for frame in reversed(traceback.extract_tb(e.__traceback__)):
        name = frame.filename
        if not name.startswith("<") and name != __file__ and not any(name.startswith(p) for p in installed):
            return f"{name}:{frame.lineno}"
    return ""


def _built_in(wanted: Wanted) -> Made:
    import torch

    try:
        from torchvision import models  # type: ignore[import-untyped]
    except ImportError as e:
        raise EnvironmentFault(
            f"make the built-in model `{wanted.spec}`: torchvision cannot be imported ({e})",
            hint="`pip install torchvision` in the version that belongs to your torch, or name a factory: `file.py:factory`",
        ) from e
    if wanted.spec not in models.list_models():
        near = [n for n in models.list_models() if n.startswith(wanted.spec[:4])][:6]
        raise UsageFault(
            f"make the model `{wanted.spec}`: torchvision has no model of this name"
            + (f" (near: {', '.join(near)})" if near else ""),
            hint="name a torchvision model, `file.py:factory` or `package.module:callable`",
        )
    torch.manual_seed(wanted.seed)
    # These two spend seconds on truncated normals unless told not to.
    extra = {"init_weights": False} if wanted.spec in ("googlenet", "inception_v3") else {}
    side = 299 if wanted.spec == "inception_v3" else 224
    dtype = getattr(torch, wanted.dtype)
    batch = 1 if wanted.batch is None else wanted.batch
    with _users_code(f"make `{wanted.spec}` with batch {batch}"):  # a batch that no memory holds
        model = models.get_model(wanted.spec, weights=None, **extra).eval()
        x = torch.randn(batch, 3, side, side).to(dtype)
        model, x = model.to(wanted.device, dtype), x.to(wanted.device)
        if wanted.channels_last:
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    layout = "NHWC" if wanted.channels_last else "NCHW"
    return Made(
        model,
        (x,),
        wanted.name,
        f"torchvision {wanted.spec}, {layout}, batch {x.shape[0]}, {wanted.dtype}, random weights",
    )
