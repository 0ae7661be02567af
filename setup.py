"""Builds the package by calling CMake; everything declarative is in pyproject.toml.

The extension is built against the torch that is installed here, so build isolation has to be off:

    pip install --no-build-isolation --no-deps .

A source distribution made by `make dist` carries the Go artefacts in `prebuilt/`; with them neither Go nor a network is needed.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def fail(text: str, hint: str) -> None:
    sys.exit(f"build kernelforge: {text}\nhint: {hint}")


class CMakeBuild(build_ext):
    """Configures and builds into a folder per torch version, so that two environments do not undo each other's work."""

    def build_extension(self, ext: Extension) -> None:
        try:
            import torch
            from torch.utils import cpp_extension
        except ImportError:
            fail(
                "torch is not installed in this environment (expected torch 2.11 to 2.15)",
                "install torch first, then `pip install --no-build-isolation --no-deps .`",
            )
        cmake = shutil.which("cmake")
        if cmake is None:
            fail(
                "no `cmake` on PATH (expected 3.24 or newer)",
                "`pip install cmake ninja`, or install the system's cmake",
            )
        output = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        minor = ".".join(torch.__version__.split(".")[:2])
        build = ROOT / "build" / f"torch-{minor}-{sysconfig.get_config_var('SOABI')}"
        args = [
            cmake,
            "-S",
            str(ROOT),
            "-B",
            str(build),
            f"-DKF_OUTPUT={output}",
            f"-DKF_TORCH_INCLUDE={';'.join(cpp_extension.include_paths())}",
            f"-DKF_TORCH_LIB={';'.join(cpp_extension.library_paths())}",
            f"-DKF_PYTHON_INCLUDE={sysconfig.get_paths()['include']}",
            f"-DKF_EXT_SUFFIX={sysconfig.get_config_var('EXT_SUFFIX')}",
        ]
        if not (build / "CMakeCache.txt").exists() and shutil.which("ninja"):
            args += ["-G", "Ninja"]
        prebuilt = ROOT / "prebuilt"
        if (prebuilt / "libkernelforge.so").exists():
            args.append(f"-DKF_PREBUILT={prebuilt}")
        else:
            go = os.environ.get("KF_GO") or shutil.which("go")
            if go is None:
                fail(
                    "no `go` on PATH (expected Go 1.26)",
                    "`make build` installs one, or use the source distribution of `make dist`",
                )
            args.append(f"-DKF_GO={go}")
        subprocess.run(args, check=True)
        subprocess.run([cmake, "--build", str(build), "--parallel", str(os.cpu_count() or 2)], check=True)


setup(ext_modules=[Extension("kernelforge._C", sources=[])], cmdclass={"build_ext": CMakeBuild})
