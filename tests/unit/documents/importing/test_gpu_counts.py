"""GPU counts that two identities of a row refute."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.documents.importing import Imported, read_facts
from tests.unit.documents.importing.conftest import Read

TABLE = """\
# Tiny 7B BF16 with MaxText

H100. Sequence length is 4096.

| GPUs | {header} | GBS | Step time (s) | Tokens/s | Tokens/s/GPU |
|---|{dashes}|---|---|---|---|
| {gpus} | {cells} | 128 | 2.048 | 256000 | {rate} |
"""
DP, FACTORS = "DP 32 * TP 2 * PP 1", "MBS 1 * GA 4 * TP 2 * PP 1"


def imported(read: Read, settings: str, gpus: str = "46", rate: str = "4000") -> Imported:
    pairs = [part.split(" ") for part in settings.split(" * ")]
    header, cells = (" | ".join(pair[number] for pair in pairs) for number in (0, 1))
    dashes = "|".join("---" for _ in pairs)
    return read(TABLE.format(header=header, cells=cells, dashes=dashes, gpus=gpus, rate=rate))


@pytest.mark.parametrize(
    ("settings", "formula"),
    [
        (DP, "dp 32 * tp 2 * pp 1 = 64"),
        (FACTORS, "global_batch_size 128 / (micro_batch_size 1 * gradient_accumulation_steps 4) * tp 2 * pp 1 = 64"),
    ],
)
@pytest.mark.parametrize("gpus", ["46", "56"])
def test_two_identities_prove_another_count(read: Read, settings: str, formula: str, gpus: str) -> None:
    found = imported(read, settings, gpus)
    (row,) = found.rows
    assert (row.id, row.values["gpus"].text) == ("tiny_7b_bf16[H100x64]", "64")
    assert row.values["tokens_per_s_per_gpu"].text == "4000"
    assert [remark.message for _, remark in found.remarks] == [
        f"{gpus} is refuted: it is 64, as {formula}, and 256000 / 4000 = 64"
    ]
    assert found.blanks == ()
    (documented,) = found.documented
    assert documented.values["gpus"].text == gpus


@pytest.mark.parametrize(
    ("settings", "gpus", "rate"),
    [
        ("TP 2", "56", "4000"),  # one alone
        (DP, "56", "-"),
        ("MBS 1 * GA 4 * DP 32 * TP 2 * PP 1", "56", "-"),  # both rest on TP
        (DP, "56", "8000"),  # they differ
        ("DP 16 * TP 2 * PP 1", "56", "4000"),
        (DP, "64", "8000"),  # one gives the documented one
        ("DP 32 * EP 2 * TP 2 * PP 1", "56", "4000"),  # 64, or 128
        ("MBS 1 * GA 4 * DP 16 * TP 2 * PP 1", "56", "4000"),
    ],
)
def test_a_count_stays_without_two(read: Read, settings: str, gpus: str, rate: str) -> None:
    (row,) = imported(read, settings, gpus, rate).rows
    assert row.values["gpus"].text == gpus


def test_facts_name_the_row_by_its_proven_count(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "facts.yaml"
    path.write_text(
        "documents:\n  - document: tiny.md\n    tables:\n      - line: 5\n        rows:\n"
        "          - {line: 7, gpus: 64, statistic: median}\n"
    )
    text = TABLE.format(header="DP | TP | PP", dashes="---|---|---", gpus="46", cells="32 | 2 | 1", rate="4000")
    (row,) = read(text, facts=read_facts(path)["tiny.md"]).rows
    assert row.values["statistic"].text == "median"
