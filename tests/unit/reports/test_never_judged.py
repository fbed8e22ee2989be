"""Rows that a run before never judged: errors, as long as the run's directory is there to say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.history.store import EXCLUDE, Event
from pytest_gsw.jobs.journal import COPY, Journal
from pytest_gsw.reports.build import run_reports
from pytest_gsw.reports.html.nights import listed_runs
from pytest_gsw.reports.run_report import RunReport
from pytest_gsw.results.record import write_record
from tests.unit.jobs.owners import leave_owner
from tests.unit.reports.nights import PASSED, RUN_ID, SLOW, TONIGHT, history_of, row, runs

#: Of the run before, one row was judged.
BEFORE = row(PASSED.row.id, TONIGHT - 1)
KILLED = BEFORE.run.id


def began(runs: Path, run_id: str = KILLED, cluster: str = "eos") -> Path:
    """A run of two rows begins."""
    journal = Journal(runs / run_id)
    journal.session(cluster, [PASSED.row.node_id, SLOW.row.node_id])
    journal.close()
    return runs / run_id


def tonight(home: Path, excluded: str = "") -> RunReport:
    with history_of(home, BEFORE) as history:
        if excluded:
            history.decide(Event(EXCLUDE, excluded, "eos", 0.0, {}))
        (night,) = run_reports([PASSED, row(SLOW.row.id)], history, runs(home / "runs" / RUN_ID))
    return night


def told(night: RunReport) -> dict[str, dict[str, int]]:
    return {one.run_id: dict(one.outcomes) for one in night.listed}


def test_a_row_that_the_run_before_never_judged_was_an_error(tmp_path: Path) -> None:
    began(tmp_path / "runs")
    night = tonight(tmp_path)
    assert told(night) == {KILLED: {"passed": 1, "error": 1}}


def test_a_run_that_ended_before_any_row_was_judged_is_listed(tmp_path: Path) -> None:
    began(tmp_path / "runs", "20261215-210000-7f3a")
    night = tonight(tmp_path)
    assert told(night) == {KILLED: {"passed": 1}, "20261215-210000-7f3a": {"error": 2}}


def test_a_run_that_goes_on_has_no_errors_for_that(tmp_path: Path) -> None:
    leave_owner(began(tmp_path / "runs"))
    assert told(tonight(tmp_path)) == {KILLED: {"passed": 1}}


def test_a_run_that_nobody_can_tell_the_owner_of_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(directory: Path) -> None:
        raise PermissionError(directory)

    monkeypatch.setattr("pytest_gsw.results.unjudged.RunLock", broken)
    began(tmp_path / "runs")
    assert told(tonight(tmp_path)) == {KILLED: {"passed": 1, "error": 1}}


def test_runs_of_another_cluster_or_excluded_or_kept_from_the_history_or_unreadable_say_nothing(tmp_path: Path) -> None:
    home = tmp_path / "runs"
    began(home, "20261215-210000-0001", "dgx")
    write_record(began(home, "20261215-210000-0002"), PASSED)
    (began(home, "20261215-210000-0003") / COPY).write_text("{")
    began(home, "20261215-210000-0004")
    night = tonight(tmp_path, excluded="20261215-210000-0004")
    assert told(night) == {KILLED: {"passed": 1}}


def test_the_runs_own_line_counts_its_rows_without_a_record(tmp_path: Path) -> None:
    with history_of(tmp_path, PASSED, BEFORE) as history:
        facts = {"missing": {SLOW.row.node_id: "the session ended before this row was judged"}}
        nights = run_reports([PASSED], history, runs(tmp_path / "runs" / RUN_ID, **facts))
    (*_, line) = listed_runs(nights)
    assert (line.run_id, line.outcomes) == (RUN_ID, {"passed": 1, "error": 1})
