"""Every test has a home of its own, so that no store, pack or cache of the user is touched."""

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A fresh KERNELFORGE_HOME."""
    folder = tmp_path / "home"
    monkeypatch.setenv("KERNELFORGE_HOME", str(folder))
    for name in ("DISABLE", "PACK", "STATS", "CXX", "NVRTC"):
        monkeypatch.delenv(f"KERNELFORGE_{name}", raising=False)
    return folder
