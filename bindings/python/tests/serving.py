"""Serves hand-made plans for what a function calls, and counts: the harness of the dispatch tests.

Everything happens on the device of the tensors that a test makes, which is torch's default device: the folder `gpu` runs the same tests on CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from handmade import open_plan, record
from handmade_kernels import KERNELS
from kernelforge import _ext


def ext() -> Any:
    """Return `kernelforge._C` with its hooks installed."""
    return _ext.load()


def device() -> str:
    """Return the kind of device that tensors are made on: `cpu` or `cuda`."""
    return torch.get_default_device().type


def hits(overload: str | None = None) -> int:
    """Return the served calls since the last reset: of one overload (`aten::relu`), or of all."""
    ops = ext().stats()["ops"]
    return sum(o["hits"] for name, o in ops.items() if overload in (None, name))


def fallbacks(overload: str) -> dict[str, int]:
    """Return reason -> count since the last reset."""
    return dict(ext().stats()["ops"].get(overload, {}).get("fallbacks", {}))


@contextmanager
def published(plans: list[Any]) -> Iterator[None]:
    """Publish plans for the body, with counters at zero."""
    module = ext()
    module.publish(plans)
    module.stats(reset=True)
    try:
        yield
    finally:
        module.unpublish()


def plans_for(*functions: Callable[[], Any], only: str | None = None, **changes: Any) -> list[Any]:
    """Return a plan for every distinct call that the functions make and that has a hand-made kernel.

    only: one overload. changes: fields of the plan's JSON.
    """
    found: dict[tuple[str, int], Any] = {}
    for function in functions:
        for r in record(function):
            call = r["call"]
            if call["overload"] in KERNELS and only in (None, call["overload"]):
                plan = open_plan(call, KERNELS, r["device"], **changes)
                found[plan.id, r["device"]] = plan
    assert found, f"no call of {only or 'a known overload'} was captured"
    return list(found.values())


@contextmanager
def serving(*functions: Callable[[], Any], only: str | None = None, **changes: Any) -> Iterator[None]:
    """Serve what the functions call. They run once under no_grad to be captured."""
    with torch.no_grad():
        plans = plans_for(*functions, only=only, **changes)
    with published(plans):
        yield


@contextmanager
def eager() -> Iterator[None]:
    """Turn this thread's hooks off."""
    with ext().thread_off():
        yield


def close(got: Any, expected: Any) -> None:
    """Assert that two results agree: values within float32's rounding, strides, dtype and type exactly."""
    atol = 1e-5 if device() == "cuda" else 2e-6  # there sums are cut into other parts than here
    torch.testing.assert_close(got, expected, rtol=2e-5, atol=atol, check_stride=True, equal_nan=True)


def alone(overload: str) -> str:
    """Return the only fallback reason of an overload that was called once and not served."""
    assert hits(overload) == 0
    ((reason, count),) = fallbacks(overload).items()
    assert count == 1
    return reason
