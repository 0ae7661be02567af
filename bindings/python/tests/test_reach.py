"""docs/reach.md says what is true here: the eager columns of its table for the CPU are observed again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelforge import reach
from serving import ext

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/reach.md"


def part(device):
    """Return one device's section of the committed document, "" if it has none."""
    found = [p for p in DOCUMENT.read_text().split("## ")[1:] if p.startswith(reach.DEVICES[device] + "\n")]
    return found[0] if found else ""


def written(device="cpu"):
    """Return overload -> mode -> cell of the committed table."""
    rows = {}
    for line in part(device).splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 2 + len(reach.MODES) and cells[0].startswith("`"):
            rows["aten::" + cells[0].strip("`")] = dict(zip(reach.MODES, cells[2:], strict=True))
    return rows


@pytest.mark.parametrize("device", reach.DEVICES)
def test_table_holds_every_hooked_overload(device):
    if not part(device):
        pytest.skip(f"no table for {device} is committed")
    listed = set(written(device))
    last = part(device).strip().splitlines()[-1]
    assert last.startswith("No kernel on this device")
    listed |= {"aten::" + name for name in re.findall(r"`([^`]+)`", last)}
    (torch_minor,) = re.findall(r"^torch 2\.(\d+)\.", part(device), re.MULTILINE)
    earlier = set(reach.BEFORE_2_14)
    assert listed - earlier == {row["overload"] for row in ext().op_table()} - earlier
    assert listed & earlier == (earlier if device == "cuda" and int(torch_minor) < 14 else set())


@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference_mode"])
def test_eager_columns_are_what_is_observed(mode):
    minor = ".".join(torch.__version__.split(".")[:2])
    if f"torch {minor}." not in part("cpu"):
        pytest.skip(f"the committed table is of another torch than {minor}")
    table = written()
    for overload, sample in reach.samples().items():
        expected = table[overload][mode]
        if "nnpack" in overload and not torch._nnpack_available():
            expected = "refused by torch (RuntimeError)"  # a processor that NNPACK has no code for
        assert reach.cell(sample, mode) == expected, (overload, mode)


def test_cell_of_nnpack_does_not_depend_on_calls_before():
    """Its operator alone leaves NNPACK as it is, and fails in a process that has called no convolution."""
    fresh = (
        "from kernelforge import reach;"
        "print(reach.cell(reach.samples()['aten::_nnpack_spatial_convolution'], 'no_grad'))"
    )
    done = subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True, check=True)
    torch.nn.functional.conv2d(torch.ones(1, 8, 9, 9), torch.ones(8, 8, 3, 3))
    after = reach.cell(reach.samples()["aten::_nnpack_spatial_convolution"], "no_grad")
    assert done.stdout.strip() == after


def test_leaves_change_under_aot_eager():
    """Batch norm arrives as its exported form, in-place calls as functional ones (a plan for the eager leaf does not serve them)."""
    samples = reach.samples()
    assert (
        reach.cell(samples["aten::native_batch_norm"], "aot_eager")
        == "`_native_batch_norm_legit_no_training`"
    )
    assert reach.cell(samples["aten::relu_"], "aot_eager") == "`relu`, `copy_`"


def test_command_prints_the_table(capsys, monkeypatch):
    monkeypatch.setattr(
        ext(), "op_table", lambda: [{"overload": "aten::relu"}, {"overload": "aten::cudnn_convolution"}]
    )
    assert reach.main(["--modes", "no_grad"]) == 0
    out = capsys.readouterr().out
    assert "| `relu` | `torch.relu(p)` | yes |" in out
    assert "No kernel on this device: `cudnn_convolution`." in out


def test_several_processes_observe_the_same(monkeypatch):
    monkeypatch.setattr(
        ext(), "op_table", lambda: [{"overload": f"aten::{o}"} for o in ("relu", "mm", "cat.out")]
    )
    assert reach.section("cpu", ("no_grad",), jobs=2) == reach.section("cpu", ("no_grad",))


def test_a_call_that_ends_its_process_is_told_and_the_others_are_observed(monkeypatch):
    ended = "aten::exp"
    monkeypatch.setattr(reach, "row", _row)
    found = reach._rows("cpu", ["aten::relu", ended, "aten::neg"], ("no_grad",), 2)
    assert found == [["yes aten::relu"], ["ends the process"], ["yes aten::neg"]]


def _row(device, overload, modes):
    if overload == "aten::exp":
        os.abort()
    return [f"yes {overload}" for _ in modes]


def test_only_what_the_document_lacks_is_observed_again(monkeypatch, tmp_path):
    monkeypatch.setattr(
        ext(), "op_table", lambda: [{"overload": f"aten::{o}"} for o in ("relu", "neg", "exp")]
    )
    asked = []

    def row(device, overload, modes):
        asked.append(overload)
        return ["seen"] * len(modes)

    monkeypatch.setattr(reach, "row", row)
    path = tmp_path / "reach.md"
    assert reach.main(["--write", str(path)]) == 0 and len(asked) == 3
    text = path.read_text()
    line = next(x for x in text.splitlines() if x.startswith("| `neg` |"))
    path.write_text(text.replace(line, line.replace("seen", "not observed")))
    asked.clear()
    assert reach.main(["--new", "--write", str(path)]) == 0
    assert asked == ["aten::neg"] and path.read_text() == text
    path.write_text(text.replace("torch 2.", "torch 1."))
    asked.clear()
    assert reach.main(["--new", "--write", str(path)]) == 0 and len(asked) == 3, "they were another torch's"


def test_writing_one_device_keeps_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(ext(), "op_table", lambda: [{"overload": "aten::relu"}])
    path = tmp_path / "reach.md"
    path.write_text(reach.document("", "cuda", "## CUDA\n\ntorch 9.9.9, a device.\n"))
    for _ in range(2):
        assert reach.main(["--modes", "no_grad", "--write", str(path)]) == 0
        text = path.read_text()
        assert text.count("## CPU\n") == text.count("## CUDA\n") == 1
        assert (
            text.index("## CPU")
            < text.index("| `relu` |")
            < text.index("## CUDA")
            < text.index("torch 9.9.9")
        )


def test_every_overload_has_a_call_on_some_device():
    known = set(reach.samples("cpu")) | set(reach.samples("cuda")) | set(reach.NOT_RUN)
    assert known == {row["overload"] for row in ext().op_table()}
