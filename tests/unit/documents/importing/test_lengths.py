"""The sequence length of rows whose document states none, and another row of whose table shows one."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.importing import Imported
from tests.unit.documents.importing.conftest import Read

TABLE = """\
# Tiny 7B with MaxText

Trained in BF16.

| GPUs | GBS | Step time (s) | Tokens/s |
|---|---|---|---|
| 64 H100 | 128 | 4.096 | 256000 |
| 128 H100 | 256 | {time} | {rate} |
"""
PROOF = "the document does not say: it is 8192, as 256000 * 4.096 / 128 = 8192"


def lengths(found: Imported) -> list[str | None]:
    stated = (row.values.get("sequence_length") for row in found.rows)
    return [None if one is None else one.text for one in stated]


def said(found: Imported) -> list[str]:
    return [f"{remark.line} {remark.key}: {remark.message}" for _, remark in found.remarks]


@pytest.mark.parametrize(
    ("time", "rate"),
    [
        ("4.09", "510000"),  # 0.5 % off
        ("4.1", "511000"),  # 0.1 % off
        ("4.13", "515000"),  # 1.4 % off
        ("4", "500000"),  # from 6836 to 8789
        ("4.11", "-"),
        ("-", "510000"),
    ],
)
def test_another_row_shows_it(read: Read, time: str, rate: str) -> None:
    found = read(TABLE.format(time=time, rate=rate))
    assert lengths(found) == ["8192", "8192"]
    assert f"7 sequence_length: {PROOF}" in said(found)
    assert f"7 sequence_length: {PROOF} in the row of 64 GPUs" in said(found)
    assert f"# sequence_length: {PROOF} in the row of 64 GPUs (line 7)" in "".join(found.yaml_text.values())


def test_a_comma_is_proven_by_it(read: Read) -> None:
    found = read(TABLE.format(time="4,11", rate="510257"))
    assert lengths(found) == ["8192", "8192"]
    assert found.rows[1].values["step_time_s"].text == "4.11"
    assert "8 step_time_s: the cell reads '4,11': it is 4.11, as 8192 * 256 / 4.11 = 510257" in said(found)


@pytest.mark.parametrize(
    ("time", "rate"),
    [
        ("2.048", "512000"),  # its own is another
        ("4.3", "512000"),  # 5 % off
    ],
)
def test_a_row_whose_figures_give_another_one_does_without(read: Read, time: str, rate: str) -> None:
    assert lengths(read(TABLE.format(time=time, rate=rate)))[1] != "8192"


def test_rows_that_cannot_tell_do_without_where_lengths_differ(read: Read) -> None:
    table = TABLE.format(time="2.048", rate="512000") + "| 256 H100 | 512 | 4.1 | - |\n"
    assert lengths(read(table)) == ["8192", "4096", None]


def test_a_row_of_another_model_that_cannot_tell_does_without(read: Read) -> None:
    rows = ("| Model | GPUs | GBS | Step time (s) | Tokens/s |", "|---|---|---|---|---|")
    of_two = "\n".join(
        (*rows, "| Llama 3 8B | 64 H100 | 128 | 4.096 | 256000 |", "| Llama 3 70B | 64 H100 | 128 | 31.7 | - |")
    )
    found = read(f"# Runs with MaxText\n\nTrained in BF16.\n\n{of_two}\n")
    assert lengths(found) == ["8192", None]


def test_rates_of_each_gpu_show_it_too(read: Read) -> None:
    table = TABLE.format(time="4.11", rate="-").replace("Tokens/s ", "Tokens/s/GPU ").replace("256000", "4000")
    found = read(table)
    assert lengths(found) == ["8192", "8192"]
    assert "7 sequence_length: the document does not say: it is 8192, as 4000 * 64 * 4.096 / 128 = 8192" in said(found)
