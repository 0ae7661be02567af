"""What cannot be written, opened or compiled is told before anything is measured; names that are no text are not passed on."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest
import torch

import kernelforge
from kernelforge import _core, _cxx, _job, cli
from kernelforge._place import Place
from kernelforge.errors import EnvironmentFault, PackFault, StoreFault, UsageFault
from lives import lives
from small_net import optimize


@pytest.fixture
def unmeasured(monkeypatch):
    """Nothing may be profiled."""

    def profile(*args, **kwargs):
        raise AssertionError("it was profiled")

    monkeypatch.setattr(_job, "profile", profile)
    monkeypatch.setattr("kernelforge._profile.profile", profile)


@pytest.fixture
def a_file(tmp_path):
    path = tmp_path / "a-file"
    path.write_text("mine")
    return path


@pytest.fixture
def full_folder(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "note.txt").write_text("mine")
    return folder


def test_the_hint_names_what_moves_the_folder_that_cannot_be_written(net, unmeasured, a_file, monkeypatch):
    monkeypatch.setenv("KERNELFORGE_HOME", str(a_file / "below"))
    with pytest.raises(EnvironmentFault, match="write the packs") as e:
        optimize(net)
    assert "--out" in e.value.hint and "--store" not in e.value.hint  # a store elsewhere moves no pack


# ---- the pack ---------------------------------------------------------------------------------------------------


def test_a_pack_goes_only_where_nothing_else_lies(net, unmeasured, a_file, full_folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(full_folder)
    for out, words in (
        (a_file, "a file of this name is there"),
        (link, "a file of this name is there"),
        (full_folder, "is no pack, and not empty"),
    ):
        with pytest.raises(UsageFault, match=words) as e:
            optimize(net, out=out)
        assert "--out" in e.value.hint
    with pytest.raises(EnvironmentFault, match=r"Not a directory|File exists") as e:
        optimize(net, out=a_file / "below" / "pack")
    assert "--out" in e.value.hint
    assert (full_folder / "note.txt").read_text() == "mine"


def test_the_command_tells_places_before_it_makes_the_model(a_file, full_folder, capsys):
    for argv in (
        ["optimize", "nowhere.py:make", "--out", str(full_folder)],
        ["optimize", "nowhere.py:make", "--html", str(full_folder)],
        ["profile", "nowhere.py:make", "--html", str(full_folder)],
        ["demo", "--html", str(full_folder)],
        ["demo", "--results", str(full_folder)],
        ["report", "--html", str(full_folder)],
    ):
        assert cli.main(argv) == 2, argv
        assert f"`{full_folder}`" in capsys.readouterr().err
    assert cli.main(["profile", "nowhere.py:make", "--html", str(a_file / "x.html")]) == 5
    assert "hint: name a file in a folder that you can write with --html" in capsys.readouterr().err


def test_a_study_without_winners_leaves_no_pack(net, home, tmp_path):
    optimize(net, ops="max_pool2d*", min_share=1.0, out=tmp_path / "pack")
    assert kernelforge.report().to_dict()["pack"] is None
    assert not (tmp_path / "pack").exists()
    assert not list((home / "packs").glob("*/pack.json"))


# ---- store, compiler, temporary files ---------------------------------------------------------------------------


def test_a_damaged_store_is_told_first(net, unmeasured, home):
    home.mkdir()
    (home / "kernelforge.db").write_bytes(b"x" * 8192)
    with pytest.raises(StoreFault, match="damaged"):
        optimize(net)


def test_a_compiler_that_compiles_nothing_is_told_first(net, unmeasured, tmp_path, monkeypatch):
    for name, text, words in (
        ("false", "exit 1", "it ended with 1"),
        ("lies", "exit 0", "made no library"),
        ("words", "echo cannot >&2; exit 1", "fails: cannot"),
    ):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("KERNELFORGE_CXX", str(program))
        with pytest.raises(EnvironmentFault, match=words) as e:
            optimize(net)
        assert "KERNELFORGE_CXX" in e.value.hint
        assert "\n\n" not in str(e.value)
    asked = []
    monkeypatch.setattr(_cxx, "tried", lambda compiler: asked.append(compiler))
    assert _cxx.trouble("passes") is _cxx.trouble("passes") is None
    assert asked == ["passes"]


def test_a_compiler_that_is_tried_while_somebody_interrupts_leaves_nothing(tmp_path, monkeypatch):
    """g++ killed alone left the files of its linker, and a linker that worked on."""
    program, scratch, told = tmp_path / "g++", tmp_path / "scratch", tmp_path / "told"
    scratch.mkdir()
    program.write_text(
        f'#!/bin/sh\ntouch "$TMPDIR/half.o"\nsleep 300 &\necho $! > {told}.new; mv {told}.new {told}\nwait\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)

    def interrupt(*_):
        if not told.exists():  # the program has not come so far
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            _cxx.tried(str(program))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert list(scratch.iterdir()) == []
    end = time.monotonic() + 10
    while lives(told.read_text().strip()):
        assert time.monotonic() < end, "what the compiler had started works on"
        time.sleep(0.01)


def test_a_compiler_on_a_full_disk_is_not_blamed(tmp_path, monkeypatch):
    program = tmp_path / "full"
    program.write_text("#!/bin/sh\necho 'No space left on device' >&2; exit 1\n")
    program.chmod(0o755)
    assert "KERNELFORGE_CXX" in _cxx.tried(str(program))[1]
    monkeypatch.setattr("kernelforge._settings.free_bytes", lambda folder: 0)
    assert _cxx.tried(str(program)) == (
        f"`{program}` fails: No space left on device",
        "set TMPDIR to a folder of yours with free space",
    )


def test_a_tmpdir_that_is_not_there_is_told_first_with_its_name(net, unmeasured, a_file, monkeypatch):
    for folder in ("/no/such/folder", str(a_file)):
        monkeypatch.setenv("TMPDIR", folder)
        with pytest.raises(EnvironmentFault, match=f"write temporary files in `{folder}`") as e:
            optimize(net)
        assert "TMPDIR" in e.value.hint


# ---- names that are no text -------------------------------------------------------------------------------------


def test_a_name_that_is_no_text_is_refused_and_not_changed(tmp_path):
    store = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xe4/kernelforge.db")
    with pytest.raises(EnvironmentFault, match="no text in this locale") as e:
        _core.call("store.studies", store=store)
    assert "C.UTF-8" in e.value.hint
    assert e.value.exit_code == 5
    assert f"the name '{tmp_path}/\\udce4/kernelforge.db'" in e.value.text
    assert not list(tmp_path.iterdir())


def test_a_home_whose_name_is_no_text_is_told_first(net, unmeasured, tmp_path, monkeypatch):
    home = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xe4")
    for variable in ("KERNELFORGE_HOME", "TMPDIR"):
        os.makedirs(home, exist_ok=True)
        with monkeypatch.context() as m:
            m.setenv(variable, home)
            with pytest.raises(EnvironmentFault, match="no text in this locale"):
                optimize(net)


def test_other_names_than_ascii_arrive_as_they_are(tmp_path):
    folder = tmp_path / "ä 名 '\"$x"
    folder.mkdir()
    with pytest.raises(UsageFault) as e:
        _core.call("store.studies", store=str(folder / "none.db"))
    assert str(folder) in e.value.text


# ---- a process that is told to end ------------------------------------------------------------------------------

_SCRIPT = """
import os, signal, sys, torch
sys.path.insert(0, {tests!r})
import small_net, kernelforge
from kernelforge import _search
scope = {{"__name__": "net"}}
exec(small_net.MODEL, scope)
before = _search._carry_out
def carry_out(study, task, execute, outcome):
    before(study, task, execute, outcome)
    if task["kind"] == "check":  # a worker has run, and its folder is there
        print(os.listdir(os.environ["TMPDIR"]), flush=True)
        os.kill(os.getpid(), {signal})
_search._carry_out = carry_out
small_net.optimize(scope["make"](), candidates=50, progress=False)
print("it went on")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_search_that_is_ended_leaves_no_temporary_files(tmp_path, number):
    """SIGTERM ends it in order; what SIGKILL leaves the next search removes."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
    tests = os.path.dirname(os.path.abspath(__file__))
    script = _SCRIPT.format(tests=tests, signal=int(number))
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == -number, done.stderr
    assert "kernelforge-" in done.stdout, done.stderr
    assert "it went on" not in done.stdout
    if number == signal.SIGTERM:
        assert "what was searched is saved" in done.stderr
    else:
        assert [p.name for p in scratch.iterdir() if p.name.startswith("kernelforge-")]
        again = _SCRIPT.format(tests=tests, signal=0)
        done = subprocess.run(
            [sys.executable, "-c", again.replace("candidates=50", "candidates=1")],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
    assert not [p.name for p in scratch.iterdir() if p.name.startswith("kernelforge-")]


def test_an_interrupt_of_the_profile_says_the_way_on(net, monkeypatch, net_file, capsys):
    def profile(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_job, "profile", profile)
    with pytest.raises(
        KeyboardInterrupt, match="optimize `Net`: interrupted\nhint: nothing was searched yet"
    ):
        optimize(net)
    monkeypatch.setattr("kernelforge._profile.profile", profile)
    assert cli.main(["profile", f"{net_file}:make"]) == 130
    err = capsys.readouterr().err
    assert "error: profile: interrupted\nhint: " in err


def test_a_pack_whose_name_is_no_text_is_refused(tmp_path):
    import packs

    folder = type(tmp_path)(os.fsdecode(os.fsencode(str(tmp_path)) + b"/p\xe4ck"))
    packs.write(folder)
    with pytest.raises(PackFault, match=r"\\udce4ck.*no text in this locale") as e:
        kernelforge.apply(folder)
    assert "UTF-8" in e.value.hint
    assert kernelforge.apply(folder, strict=False) == []


def test_a_terminal_that_lacks_a_letter_gets_it_escaped(tmp_path):
    code = "from types import SimpleNamespace as N; from kernelforge.cli import options; options.emit(N(json=False), {}, '\\u2514\\u2500 \\xe4')"
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "\\u2514\\u2500 \\xe4\n"), done.stderr


@pytest.mark.parametrize(("fraction", "free"), [(1.0, 70), (0.5, 40), (0.1, 0)])
def test_a_devices_free_memory_is_no_more_than_torch_may_take_here(monkeypatch, fraction, free):
    """Torch holds 10 of 100 and has 5 more that it could give back; 65 are free. Here there is no device to ask (tests/gpu/test_memory_cuda.py)."""
    for name, value in {
        "memory_allocated": 10,
        "memory_reserved": 15,
        "mem_get_info": (65, 100),
        "get_per_process_memory_fraction": fraction,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda ordinal, value=value: value)
    assert Place(0).free_bytes() == free
