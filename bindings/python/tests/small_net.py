"""A small network with two operators that are worth a search, as a file and as an object; commands and `optimize` on it."""

import os
import subprocess
import sys
from pathlib import Path

import torch

import kernelforge

PACKAGE = Path(kernelforge.__file__).parent

MODEL = '''
import torch

class Net(torch.nn.Module):
    """One convolution, and two operators whose eager CPU kernels leave room."""
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.pool = torch.nn.MaxPool2d(3, 2, ceil_mode=True)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return torch.sigmoid(x.transpose(1, 2).contiguous()).mean(dim=(2, 3))

def make(batch=2):
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(batch, 3, 96, 96),)
'''


# A search whatever there is to gain: on a machine that is busy meanwhile, a copy seems to take as long as an operator.
SEARCHED = """
from kernelforge import _job, cli

settings = _job.Job._settings
_job.Job._settings = lambda job: settings(job) | {"min_gain": 0.0}
cli.command()
"""


def command(*argv, searched=False, **options):
    """Run the command line. searched: what it optimizes is searched even where little is to gain."""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, *(["-c", SEARCHED] if searched else ["-m", "kernelforge"]), *argv],
        capture_output=True,
        text=True,
        timeout=540,
        env=env,
        **options,
    )


def optimize(net, **options):
    model, inputs = net
    with torch.no_grad():
        return kernelforge.optimize(
            model,
            inputs,
            **{"candidates": 4, "ops": "max_pool2d*", "min_share": 0.0, "processes": 0, **options},
        )
