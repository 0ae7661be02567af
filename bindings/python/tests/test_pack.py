"""Packs: what is read, what is refused with which words, what is served and taken back."""

import getpass

import pytest

from kernelforge import _pack
from kernelforge._seal import intact, seal
from kernelforge.errors import PackFault, UsageFault

PINS = {
    "torch": "2.15.0+cpu",
    "device": "A CPU avx512",
    "threads": 2,
    "runtime": "1",
    "toolchain": "g++ 12.2.0",
}
PLAN = {
    "id": "p-1",
    "card": "c-1",
    "variant": "v0",
    "node": 3,
    "state": "proposed",
    "call": {"overload": "aten::relu", "args": [], "outputs": []},
    "exact": True,
}


def _write(folder, **change):
    folder.mkdir(exist_ok=True)
    document = {
        "schema": 1,
        "made": "2026-12-01T10:00:00Z",
        "target": "host",
        "pins": PINS,
        "plans": [PLAN],
    } | change
    (folder / "pack.json").write_text(seal(document))
    return folder


def test_a_folder_and_its_pack_json_name_the_same_pack(tmp_path):
    assert _pack.folder_of(tmp_path / "p" / "pack.json") == _pack.folder_of(tmp_path / "p")


def test_a_folder_without_a_pack_is_said_so_with_a_hint(tmp_path):
    with pytest.raises(PackFault, match=r"there is no `pack\.json` in it") as e:
        _pack.read(tmp_path)
    assert e.value.hint
    assert e.value.exit_code == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": 1}',
        '{"schema": 1, "plans": 3, "pins": {}}',
        '{"schema": 1, "plans": [], "pins": []}',
        "\x00\xff",
    ],
)
def test_a_damaged_document_is_one_clear_error(tmp_path, text):
    (tmp_path / "pack.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(PackFault, match="damaged"):
        _pack.read(tmp_path)


def test_one_flipped_bit_anywhere_is_damage(tmp_path):
    file = _write(tmp_path) / "pack.json"
    text = file.read_bytes()
    assert intact(text)
    _pack.read(tmp_path)
    for place in range(0, len(text), 7):
        for bit in (0, 3, 6):
            flipped = bytearray(text)
            flipped[place] ^= 1 << bit
            assert not intact(bytes(flipped)), f"byte {place}, bit {bit}"
    file.write_bytes(text.replace(b'"aten::relu"', b'"aten::relV"'))
    with pytest.raises(PackFault, match="damaged or was edited"):
        _pack.read(tmp_path)


def test_a_newer_schema_is_said_so(tmp_path):
    with pytest.raises(PackFault, match=r"schema 2 \(expected 1\)"):
        _pack.read(_write(tmp_path, schema=2))


@pytest.mark.parametrize("name", ["torch", "device", "threads", "runtime"])
def test_a_pin_that_differs_is_named_with_both_values_and_the_way_out(tmp_path, name):
    document = _pack.read(_write(tmp_path))
    with pytest.raises(PackFault, match=f"judged with {name}") as e:
        _pack.check_pins(tmp_path, document, {**PINS, name: "other"})
    assert "kernelforge verify" in e.value.hint
    assert "`other`" in e.value.text


def test_the_toolchain_is_no_condition_since_the_code_is_built(tmp_path):
    _pack.check_pins(tmp_path, _pack.read(_write(tmp_path)), {**PINS, "toolchain": ""})


def test_approve_changes_the_state_on_disk_and_nothing_else(tmp_path):
    before = _pack.read(_write(tmp_path))
    assert _pack.approve(tmp_path) == ["p-1"]
    after = _pack.read(tmp_path)
    assert after["plans"][0].pop("state") == "approved"
    assert after["plans"][0].pop("approved_by") == getpass.getuser()
    before["plans"][0].pop("state")
    assert after.pop("digest") != before.pop("digest")
    assert after == before
    assert _pack.approve(tmp_path) == []


def test_approve_names_an_unknown_plan_and_writes_nothing(tmp_path):
    _write(tmp_path)
    with pytest.raises(UsageFault, match=r"no such plan \(found p-1\)"):
        _pack.approve(tmp_path, ["p-1", "p-9"])
    assert _pack.read(tmp_path)["plans"][0]["state"] == "proposed"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema":' * 100_000, '{"a":' + "[" * 100_000])
def test_a_pack_json_nested_past_any_depth_is_damaged(tmp_path, text):
    (tmp_path / "pack.json").write_text(text)
    with pytest.raises(PackFault, match=r"`pack.json` is damaged") as e:
        _pack.read(tmp_path)
    assert e.value.hint
