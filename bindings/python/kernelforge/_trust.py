"""Signatures of packs: who sealed this pack? Ed25519 over the digest, which binds every file of the pack.

It owns keys as text, `signature.json`, and checking a signature: plain arithmetic on public numbers, so that applying a pack needs no further package.
Making keys and signing is the core's (Go's crypto/ed25519). Source of the check: RFC 8032, 5.1.7, without cofactor, as Go's is; the
tests have its vectors and hold it against Go's.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._folder import SIGNATURE, folder_of, read_signed
from .errors import PackFault, UsageFault

_PREFIX = b"kernelforge pack 1\n"  # of what is signed, so that no signature of another thing fits
_SPKI = bytes.fromhex("302a300506032b6570032100")  # the DER of an Ed25519 public key, before its 32 bytes

# ---- the check ----------------------------------------------------------------------------------------------------

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)  # of -1

Point = tuple[int, int, int, int]  # X, Y, Z, T: x = X/Z, y = Y/Z, xy = T/Z


def _add(a: Point, b: Point) -> Point:
    e = (a[1] - a[0]) * (b[1] - b[0]) % _P
    f = (a[1] + a[0]) * (b[1] + b[0]) % _P
    g = 2 * a[3] * b[3] * _D % _P
    h = 2 * a[2] * b[2] % _P
    x, y, z, t = f - e, h - g, h + g, f + e
    return x * y % _P, z * t % _P, y * z % _P, x * t % _P


def _point(text: bytes) -> Point | None:
    """Return the point of 32 bytes; None if they are none."""
    y = int.from_bytes(text, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= _P:
        return None
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    if v * x * x % _P != u:
        x = x * _ROOT % _P
    if v * x * x % _P != u or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = _P - x
    return x, y, 1, x * y % _P


def _encoded(p: Point) -> bytes:
    inverse = pow(p[2], -1, _P)
    x, y = p[0] * inverse % _P, p[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


_BASE = _point(bytes.fromhex("58" + "66" * 31))
_ZERO: Point = (0, 1, 1, 0)


def verifies(key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature of 64 bytes is that of the message by the owner of a public key of 32 bytes.

    Example:
        >>> verifies(bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"), b"", bytes(64))
        False

    Source: RFC 8032, 5.1.7.
    """
    if len(key) != 32 or len(signature) != 64:
        return False
    owner, s = _point(key), int.from_bytes(signature[32:], "little")
    if owner is None or _BASE is None or s >= _L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % _L
    minus = (_P - owner[0], owner[1], owner[2], _P - owner[3])
    table = (_ZERO, _BASE, minus, _add(_BASE, minus))
    sum_ = _ZERO
    for i in reversed(range(253)):  # s B - h A, both at once
        sum_ = _add(sum_, sum_)
        sum_ = _add(sum_, table[(s >> i & 1) | (h >> i & 1) << 1])
    return _encoded(sum_) == signature[:32]


# ---- keys and signatures ------------------------------------------------------------------------------------------


def public_key(trust: str | os.PathLike[str]) -> bytes:
    """Return the 32 bytes of a public key: a file of `kernelforge keygen` or `openssl` (PEM), or 64 hexadecimal digits.

    Raises:
        UsageFault: it is none.
    """
    text = os.fspath(trust)
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        return bytes.fromhex(text)
    hint = "name the `.pub` file that `kernelforge keygen` wrote, or give the key's 64 hexadecimal digits"
    try:
        content = Path(text).expanduser().read_text(encoding="ascii")
    except (OSError, ValueError) as e:
        raise UsageFault(f"trust `{text}`: it cannot be read as a public key ({e})", hint=hint) from e
    found = re.fullmatch(
        r"\s*-----BEGIN PUBLIC KEY-----\s([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*", content
    )
    try:
        der = base64.b64decode("".join(found[1].split()), validate=True) if found else b""
    except ValueError:
        der = b""
    if len(der) != len(_SPKI) + 32 or not der.startswith(_SPKI):
        raise UsageFault(f"trust `{text}`: it is no Ed25519 public key in PEM", hint=hint)
    return der[len(_SPKI) :]


def message_of(digest: str) -> bytes:
    """Return the bytes that are signed for a pack's digest."""
    return _PREFIX + digest.encode()


Trust = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None


def keys_of(trust: Trust) -> list[bytes] | None:
    """Return the public keys of the argument `trust`; None if nothing is asked."""
    if trust is None:
        return None
    given = [trust] if isinstance(trust, (str, os.PathLike)) else list(trust)
    if not given:
        raise UsageFault(
            "trust: no key is named", hint="name one, or leave `trust` out to take unsigned packs"
        )
    return [public_key(t) for t in given]


def check(folder: Path, digest: str, signature: bytes | None, keys: Sequence[bytes]) -> None:
    """Refuse a pack that none of these keys has signed.

    Raises:
        PackFault: unsigned, signed by another key, or changed after it was signed.
    """
    hint = "apply it without `trust` only if you know where it comes from; who made it signs it with `kernelforge sign PACK --key FILE`"
    if signature is None:
        raise PackFault(
            f"load pack `{folder}`: it is not signed (expected a signature by a trusted key)", hint=hint
        )
    try:
        document = json.loads(signature)
        key, made, of = (str(document[name]) for name in ("key", "signature", "digest"))
        whole = bytes.fromhex(key), bytes.fromhex(made)
        known = document["schema"] == 1 and document["algorithm"] == "ed25519"
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise PackFault(f"load pack `{folder}`: `{SIGNATURE}` is damaged ({e})", hint=hint) from e
    if not known:
        raise PackFault(f"load pack `{folder}`: `{SIGNATURE}` is of a kind that is not known", hint=hint)
    if whole[0] not in keys:
        raise PackFault(f"load pack `{folder}`: it is signed by the key {key} (not a trusted one)", hint=hint)
    if of != digest:
        raise PackFault(
            f"load pack `{folder}`: it was changed after it was signed (digest {digest[:16]}, signed {of[:16]})",
            hint="`kernelforge approve` and `verify --accept` change a pack: sign it again with `kernelforge sign`",
        )
    if not verifies(whole[0], message_of(digest), whole[1]):
        raise PackFault(f"load pack `{folder}`: its signature is wrong", hint=hint)


def keygen(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a new private key, readable for its owner alone, and its public key beside it (`.pub`); return both paths.

    Raises:
        UsageFault: one of the files is there already.
    """
    from . import _core

    private = Path(path).expanduser().absolute()
    public = private.with_name(private.name + ".pub")
    for file in (private, public):
        if file.exists() or file.is_symlink():
            raise UsageFault(
                f"write the key `{file}`: a file of this name is there", hint="name another, or move it away"
            )
    made = _core.call("key.make")
    for file, text, mode in ((private, made["private"], 0o600), (public, made["public"], 0o644)):
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(number, "w", encoding="ascii") as out:
            out.write(text)
    return private, public


def sign(pack: str | os.PathLike[str], key: str | os.PathLike[str]) -> dict[str, Any]:
    """Sign a pack as it is now; return what was written into its `signature.json`.

    Args:
        pack: folder of a pack.
        key: file of a private key, of `kernelforge keygen` or `openssl genpkey -algorithm ed25519`.

    Raises:
        PackFault: the pack cannot be read or written.
        UsageFault: the key cannot be read, is no Ed25519 key, or may be read by others.
    """
    from . import _core
    from ._report import write_whole

    folder = folder_of(pack)
    _, digest, _ = read_signed(folder)
    file = Path(key).expanduser()
    try:
        text, mode = file.read_text(encoding="ascii"), file.stat().st_mode
    except (OSError, ValueError) as e:
        raise UsageFault(
            f"sign with the key `{file}`: it cannot be read ({e})", hint="`kernelforge keygen FILE` makes one"
        ) from e
    if mode & 0o077:
        raise UsageFault(f"sign with the key `{file}`: others may read it", hint=f"`chmod 600 {file}`")
    made = _core.call("key.sign", key=text, message=message_of(digest).hex())
    document = {"schema": 1, "algorithm": "ed25519", "digest": digest, **made}
    try:
        write_whole(folder / SIGNATURE, json.dumps(document, indent=1) + "\n")
    except OSError as e:
        raise PackFault(
            f"write the signature of `{folder}`: {e.strerror or e}",
            hint="is the folder writable, is the disk full?",
        ) from e
    return document
