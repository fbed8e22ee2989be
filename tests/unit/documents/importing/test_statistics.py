"""A column that says which steps the figures of a row are of is the row's statistic."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.documents.importing import Imported
from pytest_gsw.tables.load import load_table
from tests.unit.documents.importing.conftest import Read

HEAD = "# Tiny 7B BF16 with MaxText\n\nH100. Sequence length is 4096.\n\n"


def runs(read: Read, header: str, *cells: str, head: str = HEAD) -> Imported:
    lines = (f"| GPUs | {header} | Step time (s) |", "|---|---|---|", *(f"| 8 | {cell} | 2.5 |" for cell in cells))
    return read(head + "\n".join(lines) + "\n")


def statistics(found: Imported) -> list[str | None]:
    stated = (row.values.get("statistic") for row in found.rows)
    return [None if one is None else one.text for one in stated]


@pytest.mark.parametrize(
    "header", ["Steady window", "Steady-state steps", "Averaged iterations", "Steps measured", "Measurement window"]
)
def test_a_window_of_steps(read: Read, header: str) -> None:
    found = runs(read, header, "iterations 5-20")
    assert statistics(found) == ["mean[5:20]"]
    (remark,) = (remark for _, remark in found.remarks)
    assert (remark.line, remark.key, remark.message) == (
        7,
        "statistic",
        "the cell reads 'iterations 5-20': taken as mean[5:20]",
    )
    assert found.blanks == ()
    assert not any(name.startswith("attributes.") for name in found.rows[0].values)


@pytest.mark.parametrize(
    ("cell", "statistic"),
    [
        ("5-20", "mean[5:20]"),
        ("steps 5 to 20", "mean[5:20]"),
        ("mean of steps 5\u201320", "mean[5:20]"),
        ("median of iterations 41-50", "median[41:50]"),
        ("last 10 steps", "mean[-10:]"),
        ("average over the last 10", "mean[-10:]"),
        ("last step", "last"),
        ("all", "mean"),
        ("from step 100", "mean[100:]"),
    ],
)
def test_ways_to_write_it(read: Read, cell: str, statistic: str) -> None:
    assert statistics(runs(read, "Steady window", cell)) == [statistic]


@pytest.mark.parametrize("cell", ["after warm-up", "20-5", "5, 10, 15", "60 s", "every 10th step"])
def test_what_no_statistic_says_is_a_blank(read: Read, cell: str) -> None:
    head = HEAD.replace("H100.", "H100. Judged by the last training step.")
    found = runs(read, "Steady window", cell, head=head)
    assert statistics(found) == [None]
    assert [blank[2:] for blank in found.blanks] == [
        ("statistic", f"the cell reads '{cell}', which is none of the statistics that a row can have")
    ]


def test_an_empty_cell_says_nothing(read: Read) -> None:
    found = runs(read, "Steady window", "-", head=HEAD.replace("H100.", "H100. Judged by the last training step."))
    assert (statistics(found), found.blanks) == (["last"], ())


def test_each_row_is_read_again_with_its_own(read: Read, tmp_path: Path) -> None:
    found = runs(read, "Steady window", "iterations 5-20", "iterations 41-50")
    ((name, text),) = found.yaml_text.items()
    (tmp_path / "table.yaml").write_text(text)
    table = load_table(tmp_path / "table.yaml")
    assert [row.statistic for row in table] == ["mean[5:20]", "mean[41:50]"]
    assert [row.id for row in table] == [row.id for row in found.rows]
    assert name == "maxtext/tiny_7b.yaml"
