"""Speaks with `kernelforge-worker serve` in frames, as the Go core does: for tests of the worker alone (docs/formats.md, `worker frames`)."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelforge import _core

ALLOWED = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "KERNELFORGE_LIBCUDA")


class Ended(Exception):
    """The worker closed the stream; the text is how it ended and what it said."""


class Worker:
    """A worker process on a device, greeted: `hello` is its answer. Close it, or use it in a `with`.

    room: what it may reach (docs/formats.md, `worker frames`), as `kernelforge-worker tiers` tells it; none: tier 0.
    """

    def __init__(
        self,
        device: int,
        program: Path = _core.WORKER,
        runtime: Path = _core.RUNTIME,
        patience: float = 60.0,
        room: dict[str, Any] | None = None,
    ) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(patience)
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        self.last = 0
        kept = {name: os.environ[name] for name in ALLOWED if name in os.environ}
        # The worker's end is its descriptor 3; it refuses an environment with anything else in it. A shell may not know numbers of two digits.
        command = [str(program), "serve", *(["cuda"] if device >= 0 else []), *self._walls(room)]
        shim = f"import os; os.dup2({theirs.fileno()}, 3); os.closerange(4, 256); os.execve({command[0]!r}, {command!r}, {kept!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", shim],
            pass_fds=(theirs.fileno(),),
            stderr=self.said,
            process_group=0,
            cwd=tempfile.gettempdir(),
        )
        theirs.close()
        self.hello = self.ask("hello", runtime=str(runtime), threads=1, device=device)

    def _walls(self, room: dict[str, Any] | None) -> list[str]:
        """Return the arguments that move it into a room, with a secret for its self-test."""
        if room is None:
            return []
        self.secret = tempfile.NamedTemporaryFile()  # noqa: SIM115 - gone with the worker
        namespaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("user", "net")]
        text = json.dumps(room | {"secret": self.secret.name, "outside": namespaces})
        return [f"--room={text}", *(["--namespaces"] if room["tier"] >= 2 else [])]

    def ask(self, op: str, rights: Sequence[int] = (), /, **fields: Any) -> dict[str, Any]:
        """Return the answer to a request, a refusal too. rights: descriptors that travel with the frame.

        Raises:
            Ended: there is none.
        """
        self.last += 1
        body = json.dumps({"id": self.last, "op": op, **fields}).encode()
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", rights))] if rights else []
        try:
            self.socket.sendmsg([len(body).to_bytes(4, "little")], beside)
            self.socket.sendall(body)
            size = int.from_bytes(self._read(4), "little")
            answer: dict[str, Any] = json.loads(self._read(size))
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Ended(f"`{op}`: {e}; {self.ending()}") from e
        return answer

    def _read(self, n: int) -> bytes:
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise Ended(f"the stream ended; {self.ending()}")
            data += more
        return data

    def ending(self) -> str:
        """Return how the process ended, and the end of what it wrote on its standard error."""
        try:
            status = f"exit status {self.process.wait(10)}"
        except subprocess.TimeoutExpired:
            status = "it lives"
        self.said.seek(0)
        return f"{status}; it said: {self.said.read()[-2000:].decode(errors='replace')}"

    def close(self) -> None:
        """Kill the process and wait for it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.socket.close()
        self.said.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
