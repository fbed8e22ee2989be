"""The newest run of a directory of runs, and when a run began, by its id."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pytest_gsw.results.manifest import RunManifest, newest_run, write_noted
from pytest_gsw.results.runs_directory import RECORDS, begin_of


def made(runs: Path, name: str, replay_of: str = "") -> Path:
    """A run with a record."""
    (runs / name / "records").mkdir(parents=True)
    (runs / name / "records" / "row.json").write_text("{}")
    write_noted(runs / name, RunManifest("eos", replay_of=replay_of))
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


# -- run id ----------------------------------------------------------------------------------------


def test_a_run_began_when_its_id_says() -> None:
    known_s = 1_797_454_800.5
    begun = time.strftime("%Y%m%d-%H%M%S", time.localtime(known_s - 3600))
    assert begin_of(f"{begun}-1b8e18", known_s) == begin_of(begun, 0.0) == int(known_s) - 3600
    at_once = time.strftime("%Y%m%d-%H%M%S-1b8e18", time.localtime(known_s))
    assert begin_of(at_once, known_s) == int(known_s)


@pytest.mark.parametrize("run_id", ["import-481220-a", "", "20261301-000000-1b8e18", "20261216-2100001", "nightly"])
def test_what_an_id_does_not_say_is_taken_from_what_is_known(run_id: str) -> None:
    assert begin_of(run_id, 5.0) == 5.0


def test_a_run_did_not_begin_after_what_was_in_it() -> None:
    known_s = 1_797_454_800.0
    elsewhere = time.strftime("%Y%m%d-%H%M%S-1b8e18", time.localtime(known_s + 3600))
    assert begin_of(elsewhere, known_s) == known_s
