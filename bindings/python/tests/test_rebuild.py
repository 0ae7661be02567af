"""`verify --rebuild`: is the code that of the source? On this compiler and CPU the answer is to the bit."""

import hashlib
import json

import pytest

import packs
from kernelforge import _ext, _pack, _verify
from kernelforge._place import HOST
from kernelforge._rebuild import rebuild
from kernelforge._seal import seal
from kernelforge.errors import PackFault, VerifyFault
from small_net import command


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return packs.write(tmp_path_factory.mktemp("rebuild") / "p")


@pytest.fixture
def pack(made, tmp_path):
    import shutil

    return shutil.copytree(made, tmp_path / "p")


def rebuilt(folder):
    document = _pack.read(folder)
    (found,) = rebuild(folder, document, HOST, _pack.pins_here(folder, _ext.load(), HOST))["plans"]
    return found


def with_source(folder, text, **pins):
    """Give a pack another source, sealed as if it were the code's."""
    document = _pack.read(folder)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / "source" / f"{digest}.cc").write_text(text)
    document["plans"][0]["source"] = {"sha256": digest, "bytes": len(text.encode())}
    document["pins"] |= pins
    (folder / "pack.json").write_text(seal(document))
    return folder


def test_the_code_of_a_pack_is_equal_to_the_bit(pack):
    assert rebuilt(pack)["status"] == "equal"
    done = command("verify", str(pack), "--rebuild", "--blocks", "5", "--json")
    found = json.loads(done.stdout)
    assert [p["status"] for p in found["rebuild"]["plans"]] == ["equal"], done.stderr


def test_code_of_another_source_is_refused_before_it_runs(pack, monkeypatch):
    with_source(pack, packs.source(packs.WRONG))
    found = rebuilt(pack)
    assert found["status"] == "differs"
    assert "the code is not that of the source" in found["detail"]
    monkeypatch.setattr(_verify, "_followed", lambda *args: pytest.fail("its code was run"))
    with pytest.raises(VerifyFault, match="the code is not that of the source") as e:
        _verify.verify(pack, rebuild=True)
    assert e.value.exit_code == 4


def test_a_source_that_does_not_compile_is_not_the_codes(pack):
    assert rebuilt(with_source(pack, "KF_ENTRY void kf_main("))["status"] == "fails"


def test_another_compiler_makes_other_code_and_nothing_is_said_of_the_source(pack):
    found = rebuilt(with_source(pack, packs.source(packs.WRONG), toolchain="g++ 1.0.0"))
    assert found["status"] == "not_compared"
    assert "g++ 1.0.0" in found["detail"]


def test_a_damaged_source_is_told(pack):
    (file,) = (pack / "source").iterdir()
    file.write_text(file.read_text() + " ")
    with pytest.raises(PackFault, match=r"its content is not what pack\.json recorded"):
        rebuilt(pack)
