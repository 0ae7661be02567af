"""`kernelforge cache`: a store that is damaged is shown, and cleared by moving it aside; what is whole, or another program's, stays."""

import json
import sqlite3

import pytest

from kernelforge import _core, cli
from kernelforge.errors import LockedFault, StoreFault


@pytest.fixture
def store(home):
    home.mkdir()
    path = home / "kernelforge.db"
    path.write_bytes(b"x" * 8192)
    return path


def test_a_damaged_store_is_listed_with_its_size_and_the_way_on(store, capsys):
    assert cli.main(["cache", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["store"]["bytes"] == 8192
    assert "damaged" in found["trouble"]
    assert cli.main(["cache"]) == 0
    assert "cache clear --all" in capsys.readouterr().out


def test_clearing_all_moves_a_damaged_store_aside_and_makes_room_for_a_new_one(store, home, capsys):
    assert cli.main(["cache", "clear", "--all"]) == 2  # not without --yes
    assert store.exists()
    for n in (1, 2):
        store.write_bytes(b"x" * 8192)
        assert cli.main(["cache", "clear", "--all", "--yes"]) == 0
        assert f"kernelforge.db.damaged-{n}" in capsys.readouterr().out
        assert not store.exists()
        assert (home / f"kernelforge.db.damaged-{n}").read_bytes() == b"x" * 8192
    assert cli.main(["cache"]) == 0
    assert "no study" in capsys.readouterr().out


def test_another_programs_files_are_never_moved(tmp_path, capsys):
    text = tmp_path / "notes.txt"
    text.write_text("not a database\n" * 500)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE mine (x)")
    for path in (text, foreign):
        assert cli.main(["cache", "clear", "--all", "--yes", "--store", str(path)]) == 5
        assert path.exists()
        assert not list(tmp_path.glob("*damaged*"))
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "code"), [(StoreFault("open store `s`: it is read only"), 5), (LockedFault("locked"), 7)]
)
def test_a_store_that_is_whole_stays(store, monkeypatch, fault, code):
    def call(operation, **request):
        raise fault

    monkeypatch.setattr(_core, "call", call)
    assert cli.main(["cache", "clear", "--all", "--yes"]) == code
    assert store.exists()
