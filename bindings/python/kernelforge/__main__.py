"""`python -m kernelforge` is the `kernelforge` command."""

from kernelforge.cli import command

command()
