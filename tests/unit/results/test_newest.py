"""The newest run of a directory of runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_gsw.results.junit_names import Noted, write_noted
from pytest_gsw.results.run_id import RECORDS
from pytest_gsw.results.unjudged import newest_run


def made(runs: Path, name: str, replay_of: str = "") -> Path:
    """A run with a record."""
    (runs / name / "records").mkdir(parents=True)
    (runs / name / "records" / "row.json").write_text("{}")
    write_noted(runs / name, Noted("eos", replay_of=replay_of))
    return runs / name


def test_a_replay_is_the_newest_only_where_all_are_replays(tmp_path: Path) -> None:
    oldest = made(tmp_path, "20261113-1", "20261112-1")
    newest = made(tmp_path, "20261116-1", "20261115-1")
    assert newest_run(tmp_path, RECORDS) == newest
    made(tmp_path, "20261114-1")
    run = made(tmp_path, "20261115-1")
    assert newest_run(tmp_path, RECORDS) == run
    assert oldest.is_dir()


def test_a_run_that_may_not_be_read_is_the_newest_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("20261114-1", "20261115-1"):
        (tmp_path / name / "records").mkdir(parents=True)
    (tmp_path / "20261114-1" / "records" / "row.json").write_text("{}")
    assert newest_run(tmp_path, RECORDS) == tmp_path / "20261114-1"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "20261115-1")
    assert newest_run(tmp_path, RECORDS) == tmp_path / "20261115-1"
