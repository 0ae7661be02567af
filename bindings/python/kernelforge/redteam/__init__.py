"""The judge on trial: kernels whose verdicts are known, put through the gates of a search (go/judge/redteam has the files).

It owns the calls that the files are written for and the run over them. It refuses to judge.
"""

from .run import files, redteam

__all__ = ["files", "redteam"]
