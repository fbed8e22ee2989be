"""Tables whose rows stand on one line each: what is read without YAML is what YAML reads, or nothing is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.tables import load
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table, read_by_line, table_files
from tests.budget.tables import HEAD

_TABLE = """\
{head}\
{file}
tables:
  - dtype: fp8
{table}
    rows:
      - {{gpus: 1, case: r0, step_time_s: 4.3, line: 1}}
{rows}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def _write(rows: str = "", file: str = "", table: str = "") -> Path:
        path = tmp_path / "rows.yaml"
        path.write_text(_TABLE.format(head=HEAD, file=file, table=table, rows=rows))
        return path

    return _write


def _without_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(load, "read_by_line", lambda _path: None)
        return load_table(path)


@pytest.mark.parametrize("path", table_files(bundled_baselines()), ids=lambda path: path.name)
def test_a_bundled_table_is_the_same_both_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_table(path) == _without_lines(path, monkeypatch)


@pytest.mark.parametrize(
    "row",
    [
        "      - {gpus: 2, step_time_s: 4.3, tokens_per_s: 1905.12, tolerance: 5%, line: 2}",
        "      - {gpus: 2, step_time_s: 4.30e+0, notes: two words, line: 2}",
        "      - {gpus: 2, step_time_s: '4.3', line: 2}  # a comment",
        "      - gpus: 2\n        step_time_s: 4.3\n        line: 2",
        "      - {gpus: 2, step_time_s: 4.3, attributes: {id: 7}, line: 2}",
        "      - {gpus: 2, step_time_s: 4.3, line: 2}\n      - {gpus: ~, step_time_s: 4.3, line: 2}",
    ],
)
def test_rows_are_read_without_yaml(row: str, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(row)
    assert read_by_line(path) is not None
    rows = load_table(path)
    assert [row.gpus for row in rows] == [1, 2]
    assert rows == _without_lines(path, monkeypatch)


@pytest.mark.parametrize(
    "places",
    [
        {"rows": "      - {gpus: 2, gpus: 2, step_time_s: 4.3, line: 2}"},
        {"rows": "      - {gpus: 0, step_time_s: 4.3, line: 2}"},
        {"rows": "      - {gpus: 2, step_time: 4.3, line: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4,3, line: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4.3, attributes: 4, line: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4.3, line: 2}\n\n    - {gpus: 2}"},
        {"rows": "      - {gpus: 2, step_time_s: 4.3, line: 2}\n      - {gpus: 2, step_time_s: 4.3, line: 2}"},
        {"rows": "      - {gpus: 2, line: 2}"},
        {"rows": "      - {}"},
        {"file": "release:\n  - {gpus: 2}"},
        {"file": "release: a\n  - {gpus: 2}"},
    ],
)
def test_what_is_wrong_is_told_as_it_is_without_lines(
    places: dict[str, str], write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(**places)
    with pytest.raises(Exception) as told:
        load_table(path)
    with pytest.raises(type(told.value)) as wanted:
        _without_lines(path, monkeypatch)
    assert str(told.value) == str(wanted.value)


@pytest.mark.parametrize(
    "places",
    [
        {"table": "    notes: |\n      - {gpus: 2}"},
        {"table": "    notes: 'one\n      - {gpus: 2}\n      '"},
        {"table": '    notes: "one\n      - {gpus: 2}\n      "'},
        {"table": "    notes: in München"},
        {"table": "    notes: one\u2028two"},
        {"table": "    notes: &note one\n    title: *note"},
        {"table": "    title: &rows\n      - {gpus: 2}"},
    ],
)
def test_what_only_looks_like_a_row_is_left_to_yaml(places: dict[str, str], write: Callable[..., Path]) -> None:
    assert read_by_line(write(**places)) is None


def test_a_text_keeps_what_looks_like_a_row(write: Callable[..., Path]) -> None:
    (row,) = load_table(write(table="    notes: |\n      - {gpus: 2}"))
    assert row.notes == "- {gpus: 2}\n"
