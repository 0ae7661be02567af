"""Applying real packs: served and taken back, refused with the reason, judged again; what a fork and a missing torch say."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import kernelforge
import packs
from kernelforge import _ext, _pack
from kernelforge.errors import EnvironmentFault, PackFault, UsageFault, VerifyFault

torch = pytest.importorskip("torch")
PACKAGE = Path(kernelforge.__file__).parent


@pytest.fixture
def x():
    return torch.randn(*packs.SIZES)


@pytest.fixture(autouse=True)
def clean():
    """Nothing is served and nothing is counted before and after a test."""
    _ext.load()
    kernelforge.restore()
    kernelforge.stats(reset=True)
    yield
    kernelforge.restore()


@pytest.fixture
def one_thread():
    """Timing without a pool of threads, which a busy machine delays by milliseconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _hits():
    return kernelforge.stats()["ops"].get("aten::relu", {}).get("hits", 0)


def test_apply_serves_restore_takes_back_and_the_values_stay(tmp_path, x):
    expected = torch.relu(x)
    pack = packs.write(tmp_path / "p")
    assert kernelforge.apply(pack) == ["p-relu"]
    assert torch.equal(torch.relu(x), expected)
    assert _hits() == 1
    torch.relu(x[:10])  # another shape: no plan
    stats = kernelforge.stats()["ops"]["aten::relu"]
    assert (stats["hits"], stats["fallbacks"]) == (1, {"no_match": 1})
    kernelforge.restore(pack)
    torch.relu(x)
    assert _hits() == 1


def test_disabled_is_eager_and_nests(tmp_path, x):
    kernelforge.apply(packs.write(tmp_path / "p"))
    with kernelforge.disabled():
        with kernelforge.disabled():
            torch.relu(x)
        torch.relu(x)
    assert _hits() == 0
    torch.relu(x)
    assert _hits() == 1


def test_explain_names_the_plan_or_the_reason(tmp_path, x):
    kernelforge.apply(packs.write(tmp_path / "p"))
    served = kernelforge.explain(torch.nn.ReLU(), (x,))
    assert [s["plan"] for s in served.sites if s["overload"] == "aten::relu"] == ["p-relu"]
    assert "plan p-relu" in str(served)
    assert "float32[64,1000]" in str(served)
    missed = kernelforge.explain(torch.nn.ReLU(), (x[:3],))
    assert "no plan was judged for exactly this call" in str(missed)
    assert [c["reason"] for c in missed.to_dict()["calls"] if c["overload"] == "aten::relu"] == ["no_match"]


def test_two_packs_serve_side_by_side_and_the_later_wins_on_one_guard(tmp_path, x):
    first = packs.write(tmp_path / "a", plan="p-first")
    second = packs.write(tmp_path / "b", plan="p-second")
    kernelforge.apply([first, second])
    torch.relu(x)
    hits = {p["id"]: p["hits"] for p in kernelforge.stats()["plans"]}
    assert hits.get("p-second") == 1
    assert not hits.get("p-first")
    assert set(_pack.applied()) == {str(first), str(second)}
    kernelforge.restore(second)
    torch.relu(x)
    assert {p["id"]: p["hits"] for p in kernelforge.stats()["plans"]}["p-first"] == 1


def test_a_proposed_plan_is_not_served_until_it_is_approved(tmp_path, x):
    pack = packs.write(tmp_path / "p", state="proposed")
    assert kernelforge.apply(pack) == []
    torch.relu(x)
    assert _hits() == 0
    assert kernelforge.approve(pack) == ["p-relu"]
    assert kernelforge.apply(pack) == ["p-relu"]
    torch.relu(x)
    assert _hits() == 1


def test_exact_serves_only_bitwise_plans(tmp_path):
    pack = packs.write(tmp_path / "p", exact=False)
    assert kernelforge.apply(pack, exact=True) == []
    assert kernelforge.apply(pack) == ["p-relu"]


@pytest.mark.parametrize(
    ("pin", "value"), [("torch", "2.9.0"), ("device", "Another CPU avx2"), ("threads", 17), ("runtime", "99")]
)
def test_a_pack_of_another_machine_or_torch_is_refused_and_eager_runs(tmp_path, x, pin, value):
    pack = packs.write(tmp_path / "p", **{pin: value})
    with pytest.raises(PackFault, match=f"judged with {pin} `{value}`") as e:
        kernelforge.apply(pack)
    assert "kernelforge verify" in e.value.hint
    torch.relu(x)
    assert _hits() == 0
    assert kernelforge.apply(pack, strict=False) == []


def test_a_pack_built_by_another_compiler_is_served(tmp_path):
    assert kernelforge.apply(packs.write(tmp_path / "p", toolchain="g++ 99.1")) == ["p-relu"]


def test_a_damaged_binary_is_refused_by_its_hash_and_what_served_before_goes_on(tmp_path, x):
    good = packs.write(tmp_path / "good")
    kernelforge.apply(good)
    bad = packs.write(tmp_path / "bad", plan="p-bad")
    code = next((bad / "code").iterdir())
    data = bytearray(code.read_bytes())
    data[-1] ^= 1
    code.write_bytes(data)
    with pytest.raises(PackFault, match=r"load pack"):
        kernelforge.apply(bad)
    torch.relu(x)
    assert _hits() == 1
    assert list(_pack.applied()) == [str(good)]


def test_a_missing_binary_is_said_so(tmp_path):
    pack = packs.write(tmp_path / "p")
    next((pack / "code").iterdir()).unlink()
    with pytest.raises(PackFault) as e:
        kernelforge.apply(pack)
    assert e.value.exit_code == 4


def test_restore_of_a_pack_that_is_not_applied_is_an_error(tmp_path):
    with pytest.raises(UsageFault, match="not applied"):
        kernelforge.restore(packs.write(tmp_path / "p"))


def test_the_switch_in_the_environment_turns_everything_off(tmp_path):
    pack = packs.write(tmp_path / "p")
    code = f"import kernelforge; print(kernelforge.apply({str(pack)!r}))"
    done = _python(code, KERNELFORGE_DISABLE="1")
    assert done.stdout.strip() == "[]", done.stderr


def test_applying_loads_no_core_and_needs_no_compiler(tmp_path):
    pack = packs.write(tmp_path / "p")
    code = (
        "import sys, torch, kernelforge\n"
        f"print(kernelforge.apply({str(pack)!r}))\n"
        "from kernelforge import _core\n"
        "print(_core.loaded(), any('libkernelforge' in line for line in open('/proc/self/maps')))\n"
    )
    done = _python(code, PATH="/nonexistent")
    assert done.stdout.splitlines() == ["['p-relu']", "False False"], done.stderr


# ---- run, stats file, explain on the command line ----------------------------------------------------------------


def _python(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=_env(**env)
    )


def _env(**env):
    return {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **env}


def test_run_serves_a_script_and_writes_its_counters(tmp_path):
    pack = packs.write(tmp_path / "p")
    script = tmp_path / "s.py"
    script.write_text(
        "import torch\nx = torch.randn(64, 1000)\nfor _ in range(3): torch.relu(x)\nprint('done')\n"
    )
    stats = tmp_path / "stats.json"
    argv = [
        sys.executable,
        "-m",
        "kernelforge",
        "run",
        "--pack",
        str(pack),
        "--stats",
        str(stats),
        str(script),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=_env())
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "1 plans serve" in done.stderr
    assert json.loads(stats.read_text())["ops"]["aten::relu"]["hits"] == 3


def test_run_takes_packs_from_the_environment_and_from_the_home(tmp_path, home):
    script = tmp_path / "s.py"
    script.write_text(
        "import torch, kernelforge\ntorch.relu(torch.randn(64, 1000))\nprint(kernelforge.stats()['ops']['aten::relu']['hits'])\n"
    )
    argv = [sys.executable, "-m", "kernelforge", "run", str(script)]
    packs.write(home / "packs" / "mine")
    packs.write(home / "packs" / "foreign", threads=55)
    by_home = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=_env())
    assert by_home.stdout == "1\n", by_home.stderr
    assert "judged with threads `55`" in by_home.stderr  # said, not fatal
    other = packs.write(tmp_path / "other")
    by_variable = subprocess.run(
        argv, capture_output=True, text=True, timeout=300, env=_env(KERNELFORGE_PACK=str(other))
    )
    assert by_variable.stdout == "1\n", by_variable.stderr
    assert "threads" not in by_variable.stderr


# ---- verify -----------------------------------------------------------------------------------------------------


def test_verify_passes_a_right_pack_in_a_process_of_its_own(tmp_path, one_thread):
    found = kernelforge.verify(packs.write(tmp_path / "p"), blocks=10)
    assert found["plans"][0]["status"] in (
        "ok",
        "slower",
    )  # this kernel does what eager does; which is faster is not its point
    assert found["plans"][0]["ratio"] > 0
    assert found["pins"] == {}


def test_verify_finds_a_wrong_value_that_only_small_numbers_show(tmp_path):
    found = kernelforge.verify(packs.write(tmp_path / "p", packs.WRONG), blocks=6)
    assert not found["passed"]
    assert found["plans"][0]["status"] == "wrong_value"


def test_verify_finds_an_operator_that_is_slower_than_eager(tmp_path, one_thread):
    found = kernelforge.verify(packs.write(tmp_path / "p", packs.SLOW), blocks=10)
    assert (found["passed"], found["plans"][0]["status"]) == (False, "slower")
    assert found["plans"][0]["high"] < 1


def test_verify_survives_a_kernel_that_crashes_and_names_its_plan(tmp_path):
    with pytest.raises(VerifyFault, match="at plan p-relu") as e:
        kernelforge.verify(packs.write(tmp_path / "p", packs.CRASH))
    assert e.value.exit_code == 4


def test_verify_accepts_a_pack_of_another_machine_if_all_passes(tmp_path, x):
    pack = packs.write(tmp_path / "p", device="Another CPU avx2")
    with pytest.raises(PackFault):
        kernelforge.apply(pack)
    document = _pack.read(pack)
    found = kernelforge.verify(pack, blocks=6, accept=True)
    assert found["pins"]["device"][0] == "Another CPU avx2"
    if found["passed"]:
        assert kernelforge.apply(pack) == ["p-relu"]
    else:
        assert _pack.read(pack) == document


def test_verify_of_a_damaged_pack_is_the_packs_error(tmp_path):
    pack = packs.write(tmp_path / "p")
    next((pack / "code").iterdir()).write_bytes(b"no code")
    with pytest.raises(PackFault, match="load pack"):
        kernelforge.verify(pack)


# ---- forks and threads ------------------------------------------------------------------------------------------


def test_a_forked_child_is_served_but_may_not_call_the_core(tmp_path, x):
    from kernelforge import _core

    kernelforge.apply(packs.write(tmp_path / "p"))
    _core.call("version")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        answer = {}
        try:
            torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
            _core.call("version")
        except EnvironmentFault as e:
            answer["error"], answer["hint"] = e.text, e.hint
        except BaseException as e:
            answer["other"] = repr(e)
        os.write(write, pickle.dumps(answer))
        os._exit(0)
    os.close(write)
    answer = pickle.loads(os.read(read, 1 << 16))
    os.waitpid(child, 0)
    assert "fork of a process that had loaded it" in answer["error"]
    assert "spawn" in answer["hint"]
    assert _core.call("version")  # the parent goes on


def test_loading_after_a_fork_works():
    code = (
        "import os\nfrom kernelforge import _core\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    print(_core.call('version')['abi'], flush=True)\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    assert _python(code).stdout == "1\n"


def test_an_extension_of_another_torch_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(_ext, "_module", None)
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    with pytest.raises(EnvironmentFault, match=r"built for torch .* \(this is 2\.99\.0\)") as e:
        _ext.load()
    assert "build it again" in e.value.hint
    assert e.value.exit_code == 5


def test_an_extension_that_is_not_built_is_one_clear_error(tmp_path):
    import shutil

    shutil.copytree(
        PACKAGE, tmp_path / "kernelforge", ignore=shutil.ignore_patterns("_C.*", "lib", "__pycache__")
    )
    done = subprocess.run(
        [sys.executable, "-c", "import kernelforge; kernelforge.apply('x')"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
    )
    assert "`kernelforge._C`: it is not built" in done.stderr
    assert "hint: run `make build`" in done.stderr
