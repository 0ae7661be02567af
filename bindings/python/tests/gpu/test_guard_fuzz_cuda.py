"""Guard fuzz on CUDA: a seeded sample; the full count is bench/guard.py --target cuda."""

import importlib.util
from pathlib import Path

BENCH = Path(__file__).resolve().parents[4] / "bench"


def test_every_call_on_a_device_is_eagers_and_every_fall_back_has_a_reason(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("bench_guard", BENCH / "guard.py")
    guard = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guard)
    data = guard.measure("cuda", 600, 1, 500, out=tmp_path / "guard.json", few=True)
    assert not data["failures"], "\n".join(
        f"{f['overload']} {f['changes']}: {f['detail']}" for f in data["failures"]
    )
    assert (data["guard_calls"], data["wrong"], data["crashes"]) == (600, 0, 0)
    assert data["served"] >= 100
    assert data["reasons"].keys() >= {"no_match", "key_set", "empty", "alignment"}
