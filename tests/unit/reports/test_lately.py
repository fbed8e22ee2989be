"""What is new, still broken and mended in a night."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.history.events import EXCLUDE, Event
from pytest_gsw.reports.night import Night
from pytest_gsw.reports.read import nights_by_run
from pytest_gsw.results.record import Record
from tests.unit.reports.nights import BROKEN, PASSED, SLOW, TONIGHT, failed, history_of, row, runs

NAME = SLOW.row.id
NCCL = "job 1 failed with exit code 1: NCCL error"


def night_of(directory: Path, *records: Record, before: tuple[Record, ...], excluded: str = "") -> Night:
    with history_of(directory, *before, *records) as history:
        if excluded:
            history.decide(Event(EXCLUDE, excluded, "eos", 0.0, {}))
        (night,) = nights_by_run(records, history, runs(directory))
    return night


def lists(night: Night) -> tuple[list[str], list[str], list[str]]:
    found = night.lately
    assert found is not None
    new, still, mended = (
        [one.record.row.id for one in turned.rows] for turned in (found.new, found.still, found.mended)
    )
    return new, still, mended


def test_without_a_night_before_nothing_is_claimed(tmp_path: Path) -> None:
    assert night_of(tmp_path, SLOW, BROKEN, before=()).lately is None
    (night,) = nights_by_run([SLOW], None, runs(tmp_path))
    assert night.lately is None


def test_what_was_well_is_new_what_was_not_is_still_broken_and_what_is_well_now_is_mended(tmp_path: Path) -> None:
    before = (
        row(NAME, TONIGHT - 1),
        failed(BROKEN.row.id, NCCL, TONIGHT - 1),
        failed(PASSED.row.id, NCCL, TONIGHT - 1),
    )
    night = night_of(tmp_path, SLOW, BROKEN, PASSED, before=before)
    assert lists(night) == ([NAME], [BROKEN.row.id], [PASSED.row.id])
    assert night.lately is not None
    assert night.lately.before_s == night.rows[0].earlier[-1].time_s


def test_an_inconclusive_row_is_broken_as_an_error_and_a_regression_are(tmp_path: Path) -> None:
    before = (row(NAME, TONIGHT - 2), row(NAME, TONIGHT - 1, 4.9, outcome="inconclusive"))
    night = night_of(tmp_path, SLOW, before=before)
    assert lists(night) == ([], [NAME], [])
    (found,) = night.rows
    assert found.broken_since == (before[1].jobs.last.end_s if before[1].jobs.last else None, 2)


def test_a_row_that_never_ran_before_is_new(tmp_path: Path) -> None:
    assert lists(night_of(tmp_path, SLOW, PASSED, before=(row(PASSED.row.id, TONIGHT - 1),))) == ([NAME], [], [])


def test_a_row_is_held_against_its_own_last_run_and_a_profiled_run_says_nothing(tmp_path: Path) -> None:
    before = (
        row(NAME, TONIGHT - 3, 5.0, outcome="regressed"),
        row(NAME, TONIGHT - 1, outcome="profiled", not_comparable="nsight"),
        row(PASSED.row.id, TONIGHT - 1),
    )
    assert lists(night_of(tmp_path, SLOW, PASSED, before=before)) == ([], [NAME], [])
    profiled = row(NAME, outcome="profiled", not_comparable="nsight")
    assert lists(night_of(tmp_path, profiled, PASSED, before=before)) == ([], [], [])


def test_a_night_that_somebody_excluded_says_nothing(tmp_path: Path) -> None:
    before = (row(NAME, TONIGHT - 2), row(NAME, TONIGHT - 1, 5.0, outcome="regressed"))
    assert lists(night_of(tmp_path, SLOW, before=before, excluded=before[1].run.id)) == ([NAME], [], [])


def test_the_runs_of_the_cluster_are_listed_with_their_counts(tmp_path: Path) -> None:
    other = row(NAME, TONIGHT - 1, cluster="selene", run_id="elsewhere")
    night = night_of(tmp_path, SLOW, PASSED, before=(row(NAME, TONIGHT - 1), other))
    assert [(one.run_id, dict(one.outcomes)) for one in night.listed] == [
        (f"night-{TONIGHT - 1:03}", {"passed": 1}),
        (SLOW.run.id, {"regressed": 1, "passed": 1}),
    ]
