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


@pytest.fixture
def net_file(tmp_path):
    import small_net

    path = tmp_path / "net.py"
    path.write_text(small_net.MODEL)
    return path


@pytest.fixture
def net():
    import small_net

    scope = {"__name__": "net"}
    exec(small_net.MODEL, scope)
    return scope["make"]()


@pytest.fixture
def surely_faster(monkeypatch):
    """A forward with plans takes half the time: what a busy machine measures of a small model decides nothing here."""
    from kernelforge import _ext
    from kernelforge._place import Place

    def forward_ms(place, forward):
        forward()
        return 1.0 if _ext.load().enabled() else 2.0

    monkeypatch.setattr(Place, "forward_ms", forward_ms)


@pytest.fixture
def clean():
    """One thread: a pool of threads waits milliseconds at every barrier of a busy machine, and no test here is about threads."""
    import torch

    import kernelforge

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    kernelforge.restore()
