"""The file of accepted figures beside a table: written whole, sorted, and read as what was meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.baseline_updates import accepted_text
from pytest_gsw.tables.bundled import accepted_file
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Accepted, Baseline
from tests.unit.tables.texts import ENTRY, EOS, TINY

HEAD = "# Written whole by pytest-gsw baseline propose, by row and cluster: what else is written here is lost.\n"
SELENE = ENTRY.replace("eos", "selene")
X16 = ENTRY.replace("x8", "x16")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.yaml"
    path.write_text(TINY)
    return path


def accept(table: Path, *figures: tuple[int, Accepted]) -> str:
    rows = load_table(table)
    return accepted_text(table, [(rows[number], accepted) for number, accepted in figures])


def test_figures_are_sorted_by_row_and_cluster_replaced_and_taken_out(table: Path) -> None:
    accepted_file(table).write_text(f"accepted:\n{SELENE}")
    assert accept(table, (0, EOS), (1, EOS)) == f"{HEAD}accepted:\n{ENTRY}{SELENE}{X16}"
    old = ENTRY.replace("1.612", "1.7").replace("jobs: 7", "jobs: 5")
    accepted_file(table).write_text(f"accepted:\n{old}{SELENE}")
    assert accept(table, (0, EOS)) == f"{HEAD}accepted:\n{ENTRY}{SELENE}"
    accepted_file(table).write_text(f"accepted:\n{ENTRY}{SELENE}")
    row = load_table(table)[0].id
    assert accepted_text(table, [], {(row, "eos")}) == f"{HEAD}accepted:\n{SELENE}"
    assert accepted_text(table, [], {(row, "eos"), (row, "selene")}) == ""


def test_texts_that_yaml_would_misread_are_quoted(table: Path) -> None:
    odd = replace(EOS, cluster="no", image="nvcr.io/nvidia/nemo:24.09", definition="123456789012", job_ids="1e5")
    new = accept(table, (0, odd))
    assert '    cluster: "no"\n' in new
    assert '    image: "nvcr.io/nvidia/nemo:24.09"\n' in new
    assert '    definition: "123456789012"\n' in new
    assert '    job_ids: "1e5"\n' in new


def accepted_figures() -> st.SearchStrategy[list[tuple[int, Accepted]]]:
    texts = st.text(st.characters(min_codepoint=32, max_codepoint=0x24F, exclude_characters="\x7f\xad"), min_size=1)
    one_line = texts.filter(lambda text: text.strip() and not any(0x7F <= ord(letter) < 0xA0 for letter in text))
    figure = st.builds(
        Accepted,
        cluster=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
        judged=st.floats(1e-4, 1e6),
        jobs=st.integers(1, 10**6),
        spread=st.integers(0, 9999).map(lambda number: number / 10_000),
        job_ids=one_line,
        date=st.dates().map(lambda date: date.isoformat()),
        definition=st.from_regex(r"[0-9a-f]{12}", fullmatch=True),
        image=st.none() | one_line,
    )
    pairs = st.tuples(st.integers(0, 2), figure)
    return st.lists(pairs, min_size=1, max_size=3, unique_by=lambda pair: (pair[0], pair[1].cluster))


#: Rows that are judged by each of the figures that a cluster may accept.
EACH = TINY.replace(
    "      - {gpus: 16, step_time_s: 0.75, line: 11}\n",
    "      - {gpus: 16, metric: checkpoint_save_time, checkpoint_save_time_s: 17.9, line: 11}\n"
    "      - {gpus: 24, metric: calibrated_step_time, calibration_flops: 1e12, step_time_s: 0.75, line: 12}\n",
)


def with_all(rows: tuple[Baseline, ...], figures: list[tuple[int, Accepted]]) -> tuple[Baseline, ...]:
    found = list(rows)
    for number, one in figures:
        found[number] = replace(found[number], accepted={**found[number].accepted, one.cluster: one})
    return tuple(found)


@given(first=accepted_figures(), second=accepted_figures())
def test_any_figures_are_read_as_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, first: list[tuple[int, Accepted]], second: list[tuple[int, Accepted]]
) -> None:
    table = tmp_path_factory.mktemp("accepted") / "t.yaml"
    table.write_text(EACH)
    rows = load_table(table)
    # The second time, some figures are new and one replaces another.
    for figures in (first, [*second, (first[0][0], replace(first[0][1], judged=3.25))]):
        text = accepted_text(table, [(rows[number], figure) for number, figure in figures])
        accepted_file(table).write_text(text)
        rows = with_all(rows, figures)
        assert load_table(table) == rows
        assert accepted_text(table, []) == text
