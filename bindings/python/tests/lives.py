"""Whether a process that a test has started still runs."""

from pathlib import Path


def lives(pid: int | str) -> bool:
    """Return whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
