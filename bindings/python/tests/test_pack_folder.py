"""What may be in a pack's folder, whose it may be, what is removed from it, and that nothing in the product unpickles."""

import os
import re
from pathlib import Path

import pytest

import packs
from kernelforge import _folder, _pack, _settings
from kernelforge._seal import seal
from kernelforge.errors import PackFault, UsageFault

ROOT = Path(__file__).resolve().parents[3]
CODE, SOURCE = "a" * 64, "b" * 64
PLAN = {
    "id": "p-1",
    "state": "proposed",
    "call": {"overload": "aten::relu", "args": [], "outputs": []},
    "exact": True,
    "code": {"sha256": CODE, "bytes": 3},
    "source": {"sha256": SOURCE, "bytes": 3},
}


def written(folder: Path, **more) -> Path:
    """A pack as far as Python reads it."""
    for sub, name in (("code", f"{CODE}.so"), ("source", f"{SOURCE}.cc")):
        (folder / sub).mkdir(parents=True)
        (folder / sub / name).write_text("abc")
    document = {"schema": 1, "made": "x", "target": "host", "pins": {"threads": 1}, "plans": [PLAN], **more}
    (folder / "pack.json").write_text(seal(document))
    return folder


# ---- whose it may be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [".", "pack.json"])
def test_what_everybody_may_write_is_refused_before_it_is_read(tmp_path, part):
    folder = written(tmp_path / "p")
    (folder / part).chmod((folder / part).stat().st_mode | 0o002)
    with pytest.raises(PackFault, match="everybody may write to it") as e:
        _pack.read(folder)
    assert "chmod -R o-w" in e.value.hint
    (folder / part).chmod((folder / part).stat().st_mode & ~0o002 | 0o020)  # a group of the user's own
    _pack.read(folder)


@pytest.mark.parametrize("part", [".", "pack.json"])
def test_what_belongs_to_somebody_else_is_refused(tmp_path, part, monkeypatch):
    folder = written(tmp_path / "p")
    mine = os.fstat

    class Foreign:
        st_uid = 4711

        def __init__(self, info):
            self.st_mode, self.st_size = info.st_mode, info.st_size

    kind = {".": os.path.isdir, "pack.json": os.path.isfile}[part]
    monkeypatch.setattr(os, "fstat", lambda n: Foreign(mine(n)) if kind(f"/proc/self/fd/{n}") else mine(n))
    with pytest.raises(PackFault, match=r"it belongs to user 4711 \(expected \d+, or root\)") as e:
        _pack.read(folder)
    assert "cp -r" in e.value.hint


def test_links_and_pipes_are_refused(tmp_path):
    folder = written(tmp_path / "p")
    (folder / "pack.json").rename(folder / "real.json")
    (folder / "pack.json").symlink_to("real.json")
    with pytest.raises(PackFault, match="it is a symbolic link"):
        _pack.read(folder)
    (folder / "pack.json").unlink()
    os.mkfifo(folder / "pack.json")
    with pytest.raises(PackFault, match="it is no regular file"):  # and does not wait for a writer
        _pack.read(folder)


def test_a_file_is_read_below_the_folder_that_was_opened(tmp_path):
    folder = written(tmp_path / "p")
    (folder / "source").rename(tmp_path / "elsewhere")
    (folder / "source").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PackFault, match=f"file `source/{SOURCE}.cc`"):
        _folder.bytes_below(folder, "source", f"{SOURCE}.cc")
    with pytest.raises(PackFault):
        _folder.bytes_below(folder, "code", "../pack.json.missing")


def test_a_pack_that_is_swapped_between_reading_and_opening_is_refused(tmp_path, monkeypatch, clean):
    """The signature and the pins of one pack must not let another one in."""
    mine = packs.write(tmp_path / "mine")
    other = packs.write(tmp_path / "other", packs.WRONG, plan="p-other")
    read = _pack.read_signed

    def swapped(folder):
        found = read(folder)
        mine.rename(tmp_path / "away")
        other.rename(mine)
        return found

    monkeypatch.setattr(_pack, "read_signed", swapped)
    with pytest.raises(PackFault, match="it is not the one that was read a moment ago"):
        _pack.apply(mine)
    assert _pack.applied() == {}


# ---- what is removed ------------------------------------------------------------------------------------------------


def test_a_study_removes_its_own_pack_and_nothing_else(tmp_path):
    folder = written(tmp_path / "p", study="net-1")
    assert not _folder.remove(folder, "net-2")
    assert (folder / "code" / f"{CODE}.so").exists()
    assert _folder.remove(folder, "net-1")
    assert not folder.exists()


def test_files_that_no_pack_has_stay(tmp_path):
    folder = written(tmp_path / "p", study="net-1")
    (folder / "notes.txt").write_text("mine")
    (folder / "source" / "draft.cc").write_text("mine, too")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / f"{CODE}.so").write_text("not below the pack")
    for name in (f"{CODE}.so",):
        (folder / "code" / name).unlink()
    (folder / "code").rmdir()
    (folder / "code").symlink_to(tmp_path / "precious")
    assert _folder.remove(folder, "net-1")
    assert not (folder / "pack.json").exists()
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "source" / "draft.cc").exists()
    assert (tmp_path / "precious" / f"{CODE}.so").exists()


@pytest.mark.parametrize("damage", ["no study", "edited", "no pack"])
def test_what_a_study_cannot_know_to_be_its_own_stays(tmp_path, damage):
    folder = written(tmp_path / "p", **({} if damage == "no study" else {"study": "net-1"}))
    file = folder / "pack.json"
    if damage == "edited":
        file.write_text(file.read_text().replace("relu", "silu"))
    if damage == "no pack":
        file.unlink()
    assert not _folder.remove(folder, "net-1")
    assert (folder / "source" / f"{SOURCE}.cc").exists()


@pytest.mark.parametrize("name", ["notes.txt", "code/x.txt", "source/" + "a" * 64, "extra"])
def test_out_does_not_take_a_folder_with_other_files(tmp_path, name):
    folder = written(tmp_path / "p")
    assert _settings.pack_place(folder) == folder
    (folder / name).write_text("mine")
    with pytest.raises(UsageFault, match=re.escape(f"`{name}` lies in it, which no pack has")):
        _settings.pack_place(folder)


# ---- no pickle ------------------------------------------------------------------------------------------------------

PRODUCT = sorted((ROOT / "bindings/python/kernelforge").rglob("*.py"))
UNPICKLES = re.compile(
    r"\b(pickle|cPickle|_pickle|dill|cloudpickle|joblib|shelve|marshal)\b|torch\.(load|save|jit\.load)\b|\bnp\.load\b|\bhub\.load|allow_pickle"
)


def test_nothing_in_the_product_unpickles():
    assert len(PRODUCT) > 50
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in PRODUCT
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if UNPICKLES.search(line) and "weights_only=True" not in line
    ]
    assert found == []
    assert UNPICKLES.search("torch.load(path)") and UNPICKLES.search("import pickle")


def test_reading_and_applying_a_pack_never_unpickles(tmp_path, monkeypatch, clean):
    import pickle

    import torch

    def refused(*args, **kwargs):
        raise AssertionError("unpickled")

    pack = packs.write(tmp_path / "p")
    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refused)
    assert _pack.apply(pack) == ["p-relu"]
