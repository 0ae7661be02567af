"""docs/reach.md says what is true here: its eager columns are observed again."""

import re
from pathlib import Path

import pytest
import torch

from kernelforge import reach
from serving import ext

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/reach.md"


def written():
    """Return overload -> mode -> cell of the committed table."""
    rows = {}
    for line in DOCUMENT.read_text().splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 2 + len(reach.MODES) and cells[0].startswith("`"):
            rows["aten::" + cells[0].strip("`")] = dict(zip(reach.MODES, cells[2:], strict=True))
    return rows


def test_table_holds_every_hooked_overload():
    text = DOCUMENT.read_text()
    listed = set(written())
    last = text.strip().splitlines()[-1]
    assert last.startswith("CUDA only")
    listed |= {"aten::" + name for name in re.findall(r"`([^`]+)`", last)}
    assert listed == {row["overload"] for row in ext().op_table()}


@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference_mode"])
def test_eager_columns_are_what_is_observed(mode):
    minor = ".".join(torch.__version__.split(".")[:2])
    if f"torch {minor}." not in DOCUMENT.read_text():
        pytest.skip(f"the committed table is of another torch than {minor}")
    table = written()
    for overload, sample in reach.samples().items():
        assert reach.cell(sample, mode) == table[overload][mode], (overload, mode)


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
    assert "CUDA only, not run here: `cudnn_convolution`." in out
