"""The digest of pack.json: its first field, the SHA-256 of the file's bytes with the digest's own digits set to 0.

One flipped bit in a guard or a launch spec would serve a kernel where it was never judged. The digest covers what the hashes of code and source do
not. It protects against damage, not against somebody who means harm: whoever can write the pack can seal it; a signature of it (_trust.py) does.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_FIELD = "digest"
_ZEROS = "0" * 64
_SEALED = re.compile(rb'\{\s*"digest"\s*:\s*"([0-9a-f]{64})"')


def seal(document: dict[str, Any]) -> str:
    """Return the text of pack.json for a document, with its digest.

    Example:
        >>> intact(seal({"schema": 1}).encode())
        True
    """
    body = {_FIELD: _ZEROS, **{k: v for k, v in document.items() if k != _FIELD}}
    text = json.dumps(body, indent=1) + "\n"
    return text.replace(_ZEROS, hashlib.sha256(text.encode()).hexdigest(), 1)


def digest_of(text: bytes) -> str:
    """Return the digest that a pack.json says it has, or "" if it begins with none."""
    found = _SEALED.match(text)
    return found[1].decode() if found else ""


def intact(text: bytes) -> bool:
    """Return whether the bytes of a pack.json are those that were sealed."""
    found = _SEALED.match(text)
    if found is None:
        return False
    zeroed = text[: found.start(1)] + _ZEROS.encode() + text[found.end(1) :]
    return hashlib.sha256(zeroed).hexdigest().encode() == found[1]
