"""The command line: help, exit codes, errors as text and as JSON, and the commands that need no search."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kernelforge
from kernelforge import cli
from kernelforge.errors import EXIT_CODES

PACKAGE = Path(kernelforge.__file__).parent


def _run(*argv, **env):
    """Run the command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **env}
    return subprocess.run(
        [sys.executable, "-m", "kernelforge", *argv],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )


def test_every_command_has_help_with_json_and_the_exit_codes(capsys):
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as e:
            cli.main([name, "--help"])
        text = " ".join(capsys.readouterr().out.split())
        assert e.value.code == 0
        assert "--json" in text
        assert "4 verification failed" in text


def test_exit_codes_are_the_documented_ones():
    assert set(EXIT_CODES) == {0, 1, 2, 3, 4, 5, 6, 7, 130}


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["profile"],
        ["optimize", "m.py:f", "--candidates", "0"],
        ["optimize", "m.py:f", "--budget-s", "-1"],
        ["show", "--no-such"],
    ],
)
def test_wrong_usage_is_2_with_a_hint(argv, capsys):
    with pytest.raises(SystemExit) as e:
        cli.main(argv)
    assert e.value.code == 2
    assert "hint: `kernelforge" in capsys.readouterr().err


def test_an_error_goes_to_stderr_with_its_hint_and_as_json_to_stdout(capsys):
    assert cli.main(["profile", "nowhere.py:make", "--json"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: read the model file `nowhere.py`: it does not exist\nhint: ")
    error = json.loads(out)["error"]
    assert (error["code"], error["meaning"]) == (2, "wrong usage")
    assert error["hint"]


def test_a_bug_is_1_with_a_traceback(monkeypatch, capsys):
    from kernelforge.cli import doctor

    def broken(args):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(doctor, "run", broken)
    assert cli.main(["doctor"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "error: doctor: ZeroDivisionError: oh" in err


def test_an_interrupt_is_130(monkeypatch, capsys):
    from kernelforge.cli import doctor
    from kernelforge.errors import Interrupted

    def stopped(args):
        raise Interrupted(
            "search `s`: interrupted after 3 of 9 candidates; they are saved\nhint: the same call resumes it"
        )

    monkeypatch.setattr(doctor, "run", stopped)
    assert cli.main(["doctor"]) == 130
    assert "hint: the same call resumes it" in capsys.readouterr().err


def test_a_full_disk_is_5_not_a_bug(monkeypatch, capsys):
    from kernelforge.cli import doctor

    def full(args):
        raise OSError(28, "No space left on device", "/somewhere/report.html")

    monkeypatch.setattr(doctor, "run", full)
    assert cli.main(["doctor"]) == 5
    assert "`/somewhere/report.html`: No space left on device" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_traceback(tmp_path):
    command = f"{sys.executable} -m kernelforge doctor --json | true"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert "Traceback" not in done.stderr


# ---- doctor -----------------------------------------------------------------------------------------------------


def test_doctor_says_in_words_what_works():
    done = _run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "torch",
        "compiler",
        "search kernels for a model: works",
        "serve packs that exist: works",
        "next: `kernelforge demo`",
    ):
        assert words in done.stdout


def test_doctor_json_is_one_object():
    found = json.loads(_run("doctor", "--json").stdout)
    assert found["uses"]["optimize"] == {"works": True, "missing": []}
    assert {c["name"] for c in found["checks"]} >= {
        "python",
        "torch",
        "extension",
        "core",
        "worker",
        "compiler",
        "cpu",
        "store",
        "gpu",
    }


def test_doctor_without_a_compiler_still_serves_and_says_what_to_install(tmp_path):
    done = _run("doctor", "--json", KERNELFORGE_CXX="no-such-compiler")
    assert done.returncode == 5
    found = json.loads(done.stdout)
    assert found["uses"]["optimize"] == {"works": False, "missing": ["compiler"]}
    assert found["uses"]["apply"]["works"]
    assert "apt-get install g++" in next(c["hint"] for c in found["checks"] if c["name"] == "compiler")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (subprocess.TimeoutExpired("g++", 60), "does not answer within 60 s"),
        (PermissionError(13, "Permission denied"), "cannot be run: .*Permission denied"),
    ],
)
def test_doctor_survives_a_compiler_that_hangs_or_cannot_be_run(monkeypatch, error, words):
    from kernelforge import _cxx, _doctor

    def run(*args, **options):
        raise error

    monkeypatch.setenv("KERNELFORGE_CXX", "g++")
    monkeypatch.setattr(_cxx, "_ran", run)
    check = _doctor._compiler()
    assert check.ok is False
    assert re.search(words, check.found)
    assert "KERNELFORGE_CXX" in check.hint


def test_doctor_tells_a_compiler_that_cannot_compile(tmp_path):
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho 'cannot do that' >&2\nexit 1\n")
    broken.chmod(0o755)
    found = json.loads(_run("doctor", "--json", KERNELFORGE_CXX=str(broken)).stdout)
    assert "cannot do that" in next(c["found"] for c in found["checks"] if c["name"] == "compiler")


def test_doctor_tells_a_home_that_cannot_be_written(tmp_path):
    file = tmp_path / "a-file"
    file.write_text("")
    found = json.loads(_run("doctor", "--json", KERNELFORGE_HOME=str(file / "below")).stdout)
    store = next(c for c in found["checks"] if c["name"] == "store")
    assert not store["ok"]
    assert "KERNELFORGE_HOME" in store["hint"]
    # A profile writes nothing, and a pack may lie anywhere.
    assert [use for use, answer in found["uses"].items() if not answer["works"]] == ["optimize"]


def test_run_asks_for_a_script_and_not_for_its_arguments(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run"])
    assert "required: script\n" in capsys.readouterr().err


def test_a_pack_that_is_nowhere_is_told_from_a_folder_that_is_none(tmp_path, capsys):
    assert cli.main(["verify", str(tmp_path / "nowhere")]) == 4
    assert "there is no such folder" in capsys.readouterr().err
    assert cli.main(["verify", str(tmp_path)]) == 4
    assert "there is no `pack.json` in it" in capsys.readouterr().err


def test_a_profile_leaves_what_takes_nothing_to_an_option(tmp_path):
    model = tmp_path / "small.py"
    model.write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(2048, 2048), torch.randn(2048, 2048)\n"
    )
    short, whole = _run("profile", f"{model}:make"), _run("profile", f"{model}:make", "--all")
    assert "addmm" in short.stdout and "rows are not shown" in short.stdout and "--all" in short.stderr
    assert "rows are not shown" not in whole.stdout and "--all" not in whole.stderr
    assert len(whole.stdout.splitlines()) > len(short.stdout.splitlines())


def test_doctor_breaks_long_rows_on_a_terminal_and_nowhere_else(monkeypatch):
    from kernelforge.cli import doctor

    words = "holds; a candidate could " + ", ".join(["read a secret file"] * 20)
    assert doctor._row("tier 0  ok  ", words) == "tier 0  ok  " + words
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = doctor._row("tier 0  ok  ", words).splitlines()
    assert len(lines) > 4 and max(map(len, lines)) <= 80
    assert all(line.startswith(" " * 12) for line in lines[1:])
    assert " ".join(line[12:] for line in lines) == words


def test_doctor_says_that_everything_is_switched_off():
    found = json.loads(_run("doctor", "--json", KERNELFORGE_DISABLE="1").stdout)
    assert "KERNELFORGE_DISABLE" in next(c["found"] for c in found["checks"] if c["name"] == "extension")


# ---- run --------------------------------------------------------------------------------------------------------


def test_run_gives_the_script_its_arguments_and_its_exit_code(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("import sys\nprint(__name__, sys.argv)\nsys.exit(int(sys.argv[1]))\n")
    done = _run("run", str(script), "7", "--flag")
    assert done.returncode == 7
    assert done.stdout == f"__main__ {[str(script), '7', '--flag']}\n"
    assert "no plan serves" in done.stderr


def test_run_of_a_script_that_is_not_there():
    done = _run("run", "nowhere.py")
    assert done.returncode == 2
    assert "there is no such file" in done.stderr


def test_run_shows_a_scripts_own_error_as_its_own(tmp_path):
    script = tmp_path / "s.py"
    script.write_text("raise ValueError('mine')\n")
    done = _run("run", str(script))
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr
    assert "fault of kernelforge" not in done.stderr


def test_run_with_a_damaged_pack_says_so_and_runs_eager(tmp_path):
    (tmp_path / "pack.json").write_text("{")
    script = tmp_path / "s.py"
    script.write_text("print('ran')\n")
    done = _run("run", "--pack", str(tmp_path), str(script))
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "`pack.json` is damaged" in done.stderr
    strict = _run("run", "--strict", "--pack", str(tmp_path), str(script))
    assert (strict.returncode, strict.stdout) == (4, "")


# ---- an empty store ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [["report"], ["show", "s"], ["approve", "s"], ["report", "s"]])
def test_an_empty_store_is_said_so_with_the_way_on(argv, capsys):
    assert cli.main(argv) == 2
    err = capsys.readouterr().err
    assert "it has no study" in err
    assert "kernelforge demo" in err


def test_show_and_cache_of_nothing_are_no_error(capsys):
    assert cli.main(["show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["studies"] == []
    assert cli.main(["cache"]) == 0
    assert "no study" in capsys.readouterr().out


def test_cache_clear_asks_first_and_needs_yes_without_a_terminal(home, capsys):
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "a.so").write_bytes(b"x" * 100)
    assert cli.main(["cache", "clear"]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert (home / "cache" / "a.so").exists()
    assert cli.main(["cache", "clear", "--yes"]) == 0
    assert not (home / "cache").exists()


def test_the_manual_names_every_command_exit_code_and_variable():
    text = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text()
    for name in cli.COMMANDS:
        assert f"| `{name}" in text, name
    for code in EXIT_CODES:
        assert f"| {code} |" in text, code
    variables = (PACKAGE / "_settings.py").read_text()
    for name in ("HOME", "DISABLE", "PACK", "STATS", "CXX", "NVRTC"):
        assert f"`KERNELFORGE_{name}`" in text
        assert f"`KERNELFORGE_{name}`" in variables


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (["--results", "r.json"], "kernelforge demo --results r.json"),
        (
            ["--fresh", "--budget-s", "90", "--candidates", "4", "--threads", "2", "--results", "r.json"],
            "kernelforge demo --fresh --budget-s 90 --candidates 4 --threads 2 --results r.json",
        ),
    ],
)
def test_the_result_file_of_the_demo_names_the_command_that_made_it(options, command):
    from kernelforge.cli import demo

    assert demo._command(cli.parser().parse_args(["demo", *options])) == command
