"""A run is told by when it began, wherever it is named by a time: runs here begin at ten and end after midnight."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pytest_gsw.history.comparison import line_of
from pytest_gsw.reports.html.layout import markup
from pytest_gsw.reports.html.pages import listed_runs, row_page
from pytest_gsw.reports.run_report import RunReport, run_reports, since_line
from pytest_gsw.results.record import Record
from tests.unit.history.runs import job
from tests.unit.reports.records_of_runs import (
    BROKEN,
    CURRENT_RUN,
    PASSED,
    SLOW,
    failed,
    history_of,
    minute_of,
    row,
    runs,
)

HOUR_S = 3600.0
#: How long before the end of its jobs a run begins.
TOOK_S = 3 * HOUR_S


def began(number: int) -> float:
    """When one of the runs began."""
    return float(job(number).end_s or 0.0) - TOOK_S


def minute_when_began(number: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(began(number)))


def run_id(number: int) -> str:
    return time.strftime("%Y%m%d-%H%M%S-7f3a00", time.localtime(began(number)))


def of_run(name: str, number: int, judged_s: float = 4.5, outcome: str = "passed", **changes: Any) -> Record:
    submit_s = began(number) + 60
    there = job(number, submit_s=submit_s, nodes="pool0-[0017-0018]")
    return row(name, number, judged_s, run_id=run_id(number), outcome=outcome, job=there, **changes)


def broken(number: int) -> Record:
    return failed(BROKEN.row.id, BROKEN.fact, number, run_id=run_id(number))


NUMBERS = range(CURRENT_RUN - 4, CURRENT_RUN + 1)
#: A row that is slow in the second run, and mended by the fourth; another that fails from the third on.
RECORDS = [
    *(of_run(PASSED.row.id, number) for number in NUMBERS),
    *(of_run(SLOW.row.id, number) for number in NUMBERS if number != CURRENT_RUN - 3),
    of_run(SLOW.row.id, CURRENT_RUN - 3, 5.0, "regressed"),
    of_run(BROKEN.row.id, CURRENT_RUN - 3),
    *(broken(number) for number in NUMBERS[2:]),
]


def current_run(directory: Path) -> RunReport:
    ran = [record for record in RECORDS if record.run.id == run_id(CURRENT_RUN)]
    with history_of(directory, *RECORDS) as history:
        (run,) = run_reports(ran, history, {run_id(CURRENT_RUN): runs(directory).popitem()[1]})
    return run


def test_the_run_itself_and_those_before_it(tmp_path: Path) -> None:
    run = current_run(tmp_path)
    assert run.begin_s == began(CURRENT_RUN)
    assert [one.time_s for one in listed_runs([run])] == list(map(began, NUMBERS))
    assert run.list_entry.time_s == began(CURRENT_RUN)


def test_since_when_a_row_is_broken(tmp_path: Path) -> None:
    run = current_run(tmp_path)
    (found,) = (one for one in run.rows if one.record.row.id == BROKEN.row.id)
    assert since_line(found.since) == f"{minute_when_began(CURRENT_RUN - 2)}, 3 runs"
    assert found.since is not None
    assert found.since.good_time_s == began(CURRENT_RUN - 3)


def test_the_runs_of_a_row_are_listed_by_their_begin_and_drawn_when_their_jobs_ended(tmp_path: Path) -> None:
    run = current_run(tmp_path)
    (found,) = (one for one in run.rows if one.record.row.id == BROKEN.row.id)
    text = markup(row_page(found, run, [], [], {}, {}))
    for number in NUMBERS[1:]:
        assert f">{minute_when_began(number)}</time>" in text
    assert f"{minute_of(CURRENT_RUN - 1)}</title>" in text


def test_alarms(tmp_path: Path) -> None:
    (alarm,) = current_run(tmp_path).alarms
    assert (alarm.since_s, alarm.mended_s) == (began(CURRENT_RUN - 3), began(CURRENT_RUN - 1))
    assert line_of(alarm).endswith(f": over since {minute_when_began(CURRENT_RUN - 1)}")


def test_a_point_keeps_the_time_of_its_job(tmp_path: Path) -> None:
    (found,) = (one for one in current_run(tmp_path).rows if one.record.row.id == PASSED.row.id)
    assert [point.time_s for point in found.past.runs] == [began(number) + TOOK_S for number in NUMBERS]
    assert minute_of(CURRENT_RUN) != minute_when_began(CURRENT_RUN)
