"""The referee: the trusted half of the judge. It makes inputs, computes references, poisons, compares, and times eager.

It owns the shared buffers and every numeric rule (`rule.py`, `operators.py`, `bounds.py`; in words: docs/tolerance.md). It refuses candidates:
code that has not passed runs in the worker, and references never leave this process. What it does on whose request: docs/formats.md, `tasks`.
"""

from .tasks import Referee

__all__ = ["Referee"]
