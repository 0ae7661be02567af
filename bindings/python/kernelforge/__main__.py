"""`python -m kernelforge` is the `kernelforge` command."""

from kernelforge.cli import main

raise SystemExit(main())
