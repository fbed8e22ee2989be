"""The live file of a run, as tools read it that follow it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.session.live_file import LiveFile
from tests.unit.results.records import SLOW

OTHER = replace(SLOW, row=replace(SLOW.row, id="other[H100x8]"))


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "live.jsonl").read_text().splitlines()]


def test_a_whole_session(tmp_path: Path) -> None:
    directory, told = tmp_path / "night", list[str]()
    directory.mkdir()
    live = LiveFile(directory, told.append)
    live.begin("eos", ["t.yaml::a", "t.yaml::b"])
    live.add_row(SLOW)
    live.end(["regressed", "passed", "passed"], 1)
    live.close()
    first, row, last = lines(directory)
    assert first == {"event": "session", "run_id": "night", "cluster": "eos", "rows": ["t.yaml::a", "t.yaml::b"]}
    assert (row["event"], row["record"]) == ("row", json.loads(SLOW.text))
    assert last == {"event": "end", "run_id": "night", "outcomes": {"regressed": 1, "passed": 2}, "exit_status": 1}
    assert not told


def test_a_record_has_one_line_and_a_later_one_of_its_row_another(tmp_path: Path) -> None:
    live = LiveFile(tmp_path, print)
    for record in (SLOW, SLOW, OTHER, replace(SLOW, fact="late"), OTHER):
        live.add_row(record)
    live.close()
    facts = [(line["record"]["row"], line["record"]["fact"]) for line in lines(tmp_path)]
    assert facts == [(SLOW.row.id, SLOW.fact), (OTHER.row.id, SLOW.fact), (SLOW.row.id, "late")]


def test_a_session_that_resumes_goes_on_below_the_earlier_lines(tmp_path: Path) -> None:
    for _ in range(2):
        live = LiveFile(tmp_path, print)
        live.begin("eos", [])
        live.close()
    assert [line["event"] for line in lines(tmp_path)] == ["session", "session"]


def test_the_file_is_private(tmp_path: Path) -> None:
    LiveFile(tmp_path, print).close()
    assert (tmp_path / "live.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_line_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    told: list[str] = []
    live = LiveFile(tmp_path, told.append)
    monkeypatch.setattr(os, "write", full)
    live.end([], 0)
    monkeypatch.undo()
    live.close()
    (line,) = told
    assert str(tmp_path / "live.jsonl") in line
    assert "No space left on device" in line
