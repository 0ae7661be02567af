"""The CUDA driver without a GPU of csrc/tests, built for Python tests, and made-up cubins for it (csrc/tests/fake_cuda.h)."""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import subprocess
import tempfile
from pathlib import Path

CSRC = Path(__file__).resolve().parents[3] / "csrc"


@functools.cache
def library() -> Path:
    """Return libcuda-fake.so, kept in the system's temporary folder by its sources: for KERNELFORGE_LIBCUDA."""
    read = [*(CSRC / "tests").glob("fake_cuda*"), CSRC / "include/kf_runtime.h", *(CSRC / "src").glob("*.h")]
    key = hashlib.sha256(b"\0".join(p.read_bytes() for p in sorted(read))).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / "kernelforge-fake-cuda"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{key}.so"
    if not target.exists():
        made = folder / f"{key}.{os.getpid()}.tmp"
        flags = ["-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
        where = [f"-I{CSRC / 'src'}", f"-I{CSRC / 'include'}"]
        files = [str(p) for p in read if p.suffix == ".cc"]
        done = subprocess.run(
            ["g++", *flags, *where, "-o", str(made), *files, "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        made.replace(target)
    return target


def cubin(info: str) -> bytes:
    """Return an ELF for CUDA with an empty kernel for each line of `info`: `kf_main params=8,8 shared=0 threads=1024`, after a line `arch=90`."""
    kernels = [line.split()[0] for line in info.splitlines() if not line.startswith("arch=")]
    names = ["", ".shstrtab", ".strtab", ".symtab", *(f".text.{k}" for k in kernels), ".kf.info"]
    strings, symbols = b"\0", bytes(24)
    for i, kernel in enumerate(kernels):
        symbols += struct.pack("<IBBHQQ", len(strings), 1 << 4 | 2, 0, 4 + i, 0, 0)  # a global function
        strings += kernel.encode() + b"\0"
    table, at = b"", []
    for name in names:
        at.append(len(table))
        table += name.encode() + b"\0"
    contents = [b"", table, strings, symbols, *([bytes(16)] * len(kernels)), info.encode()]
    out, headers = bytearray(64), b""
    for i, content in enumerate(contents):
        out += bytes(-len(out) % 16)
        kind = 0 if i == 0 else 3 if i < 3 else 2 if i == 3 else 1
        link, entry = (2, 24) if i == 3 else (0, 0)
        headers += struct.pack(
            "<IIQQQQIIQQ", at[i], kind, 0, 0, len(out) if i else 0, len(content), link, 0, 0, entry
        )
        out += content
    out += bytes(-len(out) % 16)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    out[:64] = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, 2, 190, 1, 0, 0, len(out), 0, 64, 0, 0, 64, len(contents), 1
    )
    return bytes(out) + headers
