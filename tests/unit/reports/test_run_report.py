"""What is known of a run."""

from __future__ import annotations

import math
import string
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.alarms import Alarm, Kind, Occurrence, State
from pytest_gsw.history.cluster_series import ClusterSeries
from pytest_gsw.history.comparison import line_of
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.history.since import Since
from pytest_gsw.history.store import EXCLUDE, Event
from pytest_gsw.jobs.journal import COPY, Journal
from pytest_gsw.reports.from_records import run_reports, with_own_figures
from pytest_gsw.reports.html import html_text
from pytest_gsw.reports.matrix import listed_runs
from pytest_gsw.reports.reported_row import ReportedRow, page_names, since_line, since_of
from pytest_gsw.reports.row_page import row_page
from pytest_gsw.reports.run_report import ReportedRun, RunReport
from pytest_gsw.results.record import Record, write_record
from pytest_gsw.results.runs_directory import begin_of
from pytest_gsw.results.summary import error_lines
from tests.messages import wording
from tests.unit.history.runs import DAY_S, FIRST_S, job, period
from tests.unit.history.test_alarms import of_cluster
from tests.unit.jobs.owners import leave_owner
from tests.unit.reports.records_of_runs import (
    BROKEN,
    CURRENT_RUN,
    FAST,
    PASSED,
    RUN_ID,
    SLOW,
    failed,
    history_of,
    minute_of,
    report_of,
    row,
    runs,
)
from tests.unit.results.records import varied
from tests.unit.results.test_incident import run_records

NAME = SLOW.row.id


def only(record: Record, before: tuple[Record, ...], directory: Path) -> ReportedRow:
    return report_of(record, before=before, directory=directory).rows[0]


def slow(number: int) -> Record:
    return row(NAME, number, 5.0, outcome="regressed")


def test_the_worst_comes_first() -> None:
    drifts = row("llama2_70b_bf16[H100x128]", drift="throughput of the newest runs is -3.1 %")
    noisy = row("llama2_70b_bf16[H100x256]", outcome="inconclusive", judged=4.9, sigma=0.08, sigma_jobs=30)
    profiled = row("llama2_70b_int8[H100x64]", outcome="profiled")
    worse = varied(SLOW, row="llama2_70b_int8[H100x128]", node_id="x", measured={"step_time_s": 9.0})
    run = report_of(PASSED, profiled, FAST, drifts, noisy, BROKEN, SLOW, worse)
    assert [one.record for one in run.worst_first] == [worse, SLOW, BROKEN, noisy, drifts, FAST, profiled, PASSED]
    assert run.counts == {
        "regressed": 2,
        "error": 1,
        "inconclusive": 1,
        "drift": 1,
        "improved": 1,
        "other": 1,
        "passed": 1,
    }


def test_a_row_that_ran_although_documented_to_run_out_of_memory_counts_as_regressed() -> None:
    assert [one.kind for one in report_of(varied(PASSED, outcome="unexpected_success")).rows] == ["regressed"]


@pytest.mark.parametrize(
    ("records", "status"),
    [
        ((PASSED, FAST), 0),
        ((PASSED, SLOW), 1),
        ((BROKEN,), 1),
        ((varied(PASSED, outcome="inconclusive"),), 6),
        ((PASSED, varied(PASSED, outcome="profiled")), 6),
        ((PASSED, varied(PASSED, passed_over="job 7 is judged; passed over: job 8")), 6),
        ((varied(PASSED, outcome="profiled"), SLOW), 1),
    ],
)
def test_the_exit_status_is_that_of_the_session_or_follows_from_the_records(
    records: tuple[Record, ...], status: int
) -> None:
    assert report_of(*records).exit_status == status
    assert report_of(*records, exit_status=2).exit_status == 2


def test_a_run_that_diverged_has_the_advice_of_the_screen() -> None:
    diverged = failed(NAME, "the loss or a step time is not finite at step 50: loss: nan")
    (cause,) = report_of(diverged).causes
    assert cause.advice == wording("a diverged run")


def test_an_error_that_another_job_would_meet_again_has_its_own_advice() -> None:
    (cause,) = report_of(failed(NAME, "the log ends at step 48", advice="look at the last lines")).causes
    assert cause.advice == "look at the last lines"


def test_when_it_was_and_what_it_cost() -> None:
    run = report_of(PASSED, SLOW)
    assert run.begin_s == FIRST_S + CURRENT_RUN * DAY_S - 3630
    assert run.end_s == FIRST_S + CURRENT_RUN * DAY_S
    assert run.gpu_hours == 64 + 128
    assert report_of().begin_s == begin_of(RUN_ID, 0.0)


# -- since when ------------------------------------------------------------------------------------


def test_a_row_that_was_well_last_run(tmp_path: Path) -> None:
    found = only(SLOW, before=(row(NAME, CURRENT_RUN - 1),), directory=tmp_path)
    time_s = FIRST_S + CURRENT_RUN * DAY_S
    assert found.since == Since(time_s, 1, found.past.runs[-2])


def test_a_row_that_is_slow_for_some_runs_and_what_changed_then(tmp_path: Path) -> None:
    well = tuple(row(NAME, number) for number in range(CURRENT_RUN - 6, CURRENT_RUN - 3))
    after = {"environment": {"nccl": "2.23.4"}}
    before = tuple(varied(slow(number), **after) for number in range(CURRENT_RUN - 3, CURRENT_RUN))
    found = only(varied(SLOW, **after), before=(*well, *before), directory=tmp_path)
    assert found.since is not None
    assert (found.since.time_s, found.since.runs) == (FIRST_S + (CURRENT_RUN - 3) * DAY_S, 4)
    assert found.since.changes == {"nccl": ("2.21.5", "2.23.4")}


def test_what_a_good_run_had_is_not_the_reason(tmp_path: Path) -> None:
    well = tuple(row(NAME, number) for number in range(CURRENT_RUN - 9, CURRENT_RUN - 1))
    hidden = varied(row(NAME, CURRENT_RUN - 1, 4.72), environment={"nccl": "2.23.4"})
    found = only(varied(SLOW, environment={"nccl": "2.23.4"}), before=(*well, hidden), directory=tmp_path)
    time_s = FIRST_S + CURRENT_RUN * DAY_S
    assert found.since is not None
    assert (found.since.time_s, found.since.runs) == (time_s, 1)
    assert found.since.good is not None
    assert (found.since.good.run_id, found.since.changes) == (f"night-{CURRENT_RUN - 1:03}", {})
    assert since_line(found.since) == "this run"


def test_what_came_later_is_not_known_yet(tmp_path: Path) -> None:
    found = only(SLOW, before=(row(NAME, CURRENT_RUN - 1), row(NAME, CURRENT_RUN + 1)), directory=tmp_path)
    assert [run.run_id for run in found.past.runs] == [f"night-{CURRENT_RUN - 1:03}", RUN_ID]


def test_a_row_that_could_not_be_measured_for_some_runs(tmp_path: Path) -> None:
    fact = "job 1 failed with exit code 1: NCCL error"
    before = (row(BROKEN.row.id, CURRENT_RUN - 4), *(failed(BROKEN.row.id, fact, CURRENT_RUN - n) for n in (3, 1)))
    found = only(BROKEN, before=before, directory=tmp_path)
    assert found.since is not None
    assert (found.since.time_s, found.since.runs) == (FIRST_S + (CURRENT_RUN - 3) * DAY_S, 3)
    assert found.since.good is not None
    assert found.since.good.run_id == f"night-{CURRENT_RUN - 4:03}"


def test_a_row_that_drifts(tmp_path: Path) -> None:
    before = [row(NAME, number, 4.5 * (1 + number % 5 / 1000)) for number in range(32)]
    before += [row(NAME, number, 4.62 * (1 + number % 5 / 1000)) for number in range(32, CURRENT_RUN)]
    found = only(row(NAME, CURRENT_RUN, 4.63), before=tuple(before), directory=tmp_path)
    assert found.kind == "drift"
    assert found.since is not None
    assert found.since.time_s == FIRST_S + 32 * DAY_S


def test_an_incident_is_no_good_run() -> None:
    runs = of_cluster(45, lambda number: 1.06 if number == 43 else 1.0)
    (row, *_), past = next(iter(ClusterSeries(runs).newest.items()))
    points = (*past.points[:-1], replace(past.points[-1], outcome="regressed", run_id=RUN_ID))
    found = since_of(ReportedRow(varied(SLOW, row=row), row, RowHistory(points, adjustment=past.adjustment)))
    assert found is not None
    assert found.good is not None
    assert (found.good.run_id, found.runs) == ("night-042", 1)


def test_an_incident_of_a_run_has_the_figure_of_the_run() -> None:
    """In a short history the run is part of the alarm's own reference."""
    records = run_records([0.06] * 10)
    seen = Occurrence(records[0].run.id, FIRST_S, 0.05)
    (found,) = with_own_figures(
        [Alarm("1f", period(seen, kind=Kind.INCIDENT, usual=0.0), State.NEW, pages=True)], records
    )
    assert found.change == pytest.approx(math.expm1(-0.06))


# -- causes, nodes, workloads ----------------------------------------------------------------------


def test_errors_of_one_cause_are_told_together() -> None:
    other = varied(
        BROKEN, row="b[H100x8]", node_id="t.yaml::b", fact="job 77 failed with exit code 1: NCCL error", job=None
    )
    lost = failed("llama2_70b_bf16[H100x128]", "no log of job 481265")
    nccl, log = report_of(BROKEN, other, lost).causes
    assert (nccl.fact, len(nccl.rows)) == ("job failed with exit code 1: NCCL error", 2)
    assert nccl.nodes == "pool0-[0017-0018]"
    assert nccl.advice
    assert (log.fact, log.advice) == ("no log of job", "")


def test_a_cause_names_the_nodes_that_the_screen_names() -> None:
    one, other = (failed(f"a_bf16[H100x{gpus}]", "job 1 ended NODE_FAIL") for gpus in (8, 16))
    assert other.jobs.last is not None
    both = one, varied(other, job=replace(other.jobs.last, nodes="pool0-0017,m1"))
    (cause,) = report_of(*both).causes
    assert cause.nodes == "pool0-0017 (2), m1,pool0-0018"
    (line,) = error_lines(both)
    assert line.endswith(f" on {cause.nodes}")


def on_node(number: int, node: str, *, fails: bool = False) -> Record:
    """A row of one node, which failed or passed on it."""
    name = f"a_bf16[H100x{number}]"
    ran = {"job": job(CURRENT_RUN, id=f"{number}", nodes=node)}
    return failed(name, "job 1 ended NODE_FAIL", **ran) if fails else row(name, **ran)


def test_nodes_on_which_more_jobs_failed_than_by_chance() -> None:
    passed = [on_node(number, f"n{number % 10}") for number in range(10, 40)]
    # Three failures of three on one node of forty jobs are no chance; three on three nodes are, as is a job of 64 nodes.
    black_hole = [on_node(number, "n77", fails=True) for number in range(3)]
    (found,) = report_of(*passed, *black_hole).failing_nodes
    assert (found.nodes, found.failed, found.of) == (("n77",), 3, 3)
    apart = [on_node(number, f"n{number}", fails=True) for number in range(3)]
    assert report_of(*passed, *apart).failing_nodes == ()
    assert report_of(*passed, on_node(1, "m[001-064]", fails=True)).failing_nodes == ()
    pair = [on_node(number, "n[77-78]", fails=True) for number in range(3)]
    assert [one.nodes for one in report_of(*passed, *pair).failing_nodes] == [("n77", "n78")]


def test_several_runs_are_as_many_runs_the_newest_first() -> None:
    runs = run_reports([row(NAME, 3), SLOW, row(NAME, 4)], None, {"night-009": ReportedRun(Path("x"), {"a": "b"})})
    assert [run.run_id for run in runs] == [RUN_ID, "night-004", "night-003", "night-009"]
    assert [one.record for one in report_of(varied(SLOW, recorded_s=9e9), SLOW).rows] == [varied(SLOW, recorded_s=9e9)]


def test_a_record_of_impossible_numbers_hides_no_other() -> None:
    run = report_of(PASSED, varied(SLOW, outcome="inconclusive", tolerance=7.0, sigma=0.1, sigma_jobs=30))
    assert [one.record for one in run.rows] == [PASSED]
    assert list(run.run.missing) == [SLOW.row.node_id]


# -- names of pages --------------------------------------------------------------------------------

_LETTERS = frozenset(string.ascii_letters + string.digits + "_-")


@pytest.mark.parametrize(
    "node_id",
    [
        "t.yaml::llama2_70b_fp8[H100x128]",
        "t.yaml::../../x",
        "t.yaml::..",
        "t.yaml::",
        "t.yaml::/etc/passwd",
        "t.yaml::\x00\x1b[2J\u202e",
        "t.yaml::\N{PILE OF POO}",
        f"t.yaml::{'x' * 10_000}",
    ],
)
def test_a_page_has_a_name_that_leads_nowhere_else(node_id: str) -> None:
    (name,) = page_names([node_id]).values()
    assert name
    assert set(name) <= _LETTERS
    assert len(name) < 150


def test_different_rows_have_different_pages() -> None:
    node_ids = ["a.yaml::x[1]", "a.yaml::x(1)", "b.yaml::x[1]", "a.yaml::X[1]", "a.yaml::é", "a.yaml::ü"]
    names = page_names(node_ids)
    assert len({name.lower() for name in names.values()}) == len(node_ids)


def test_the_runs_of_the_cluster_are_listed_with_their_counts(tmp_path: Path) -> None:
    other = row(NAME, CURRENT_RUN - 1, cluster="selene", run_id="elsewhere")
    ran = (SLOW, PASSED)
    run = report_of(*ran, before=(row(NAME, CURRENT_RUN - 1), other, *ran), directory=tmp_path)
    assert [(one.run_id, dict(one.outcomes)) for one in run.history_runs] == [
        (f"night-{CURRENT_RUN - 1:03}", {"passed": 1}),
        (SLOW.run.id, {"regressed": 1, "passed": 1}),
    ]


# -- never judged ----------------------------------------------------------------------------------

#: Of the run before, one row was judged.
BEFORE = row(PASSED.row.id, CURRENT_RUN - 1)
KILLED = BEFORE.run.id


def began(runs: Path, run_id: str = KILLED, cluster: str = "eos") -> Path:
    """A run of two rows begins."""
    journal = Journal(runs / run_id)
    journal.session(cluster, [PASSED.row.node_id, SLOW.row.node_id])
    journal.close()
    return runs / run_id


def current_run(home: Path, excluded: str = "") -> RunReport:
    with history_of(home, BEFORE) as history:
        if excluded:
            history.decide(Event(EXCLUDE, excluded, "eos", 0.0, {}))
        (run,) = run_reports([PASSED, row(SLOW.row.id)], history, runs(home / "runs" / RUN_ID))
    return run


def told(run: RunReport) -> dict[str, dict[str, int]]:
    return {one.run_id: dict(one.outcomes) for one in run.history_runs}


def test_a_row_that_the_run_before_never_judged_was_an_error(tmp_path: Path) -> None:
    began(tmp_path / "runs")
    run = current_run(tmp_path)
    assert told(run) == {KILLED: {"passed": 1, "error": 1}}


def test_a_run_that_ended_before_any_row_was_judged_is_listed(tmp_path: Path) -> None:
    began(tmp_path / "runs", "20261215-210000-7f3a")
    run = current_run(tmp_path)
    assert told(run) == {KILLED: {"passed": 1}, "20261215-210000-7f3a": {"error": 2}}


def test_a_run_that_goes_on_has_no_errors_for_that(tmp_path: Path) -> None:
    leave_owner(began(tmp_path / "runs"))
    assert told(current_run(tmp_path)) == {KILLED: {"passed": 1}}


def test_a_run_that_nobody_can_tell_the_owner_of_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(directory: Path) -> None:
        raise PermissionError(directory)

    monkeypatch.setattr("pytest_gsw.results.manifest.RunLock", broken)
    began(tmp_path / "runs")
    assert told(current_run(tmp_path)) == {KILLED: {"passed": 1, "error": 1}}


def test_runs_of_another_cluster_or_excluded_or_kept_from_the_history_or_unreadable_say_nothing(tmp_path: Path) -> None:
    home = tmp_path / "runs"
    began(home, "20261215-210000-0001", "dgx")
    write_record(began(home, "20261215-210000-0002"), PASSED)
    (began(home, "20261215-210000-0003") / COPY).write_text("{")
    began(home, "20261215-210000-0004")
    run = current_run(tmp_path, excluded="20261215-210000-0004")
    assert told(run) == {KILLED: {"passed": 1}}


def test_the_runs_own_line_counts_its_rows_without_a_record(tmp_path: Path) -> None:
    with history_of(tmp_path, PASSED, BEFORE) as history:
        facts = {"missing": {SLOW.row.node_id: "the session ended before this row was judged"}}
        reports = run_reports([PASSED], history, runs(tmp_path / "runs" / RUN_ID, **facts))
    (*_, line) = listed_runs(reports)
    assert (line.run_id, line.outcomes) == (RUN_ID, {"passed": 1, "error": 1})


# -- a run is told by when it began ----------------------------------------------------------------

HOUR_S = 3600.0
#: How long before the end of its jobs a run begins.
TOOK_S = 3 * HOUR_S


def begin_s(number: int) -> float:
    """When one of the runs begin_s."""
    return float(job(number).end_s or 0.0) - TOOK_S


def minute_when_began(number: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(begin_s(number)))


def run_id(number: int) -> str:
    return time.strftime("%Y%m%d-%H%M%S-7f3a00", time.localtime(begin_s(number)))


def of_run(name: str, number: int, judged: float = 4.5, outcome: str = "passed", **changes: Any) -> Record:
    submit_s = begin_s(number) + 60
    there = job(number, submit_s=submit_s, nodes="pool0-[0017-0018]")
    return row(name, number, judged, run_id=run_id(number), outcome=outcome, job=there, **changes)


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


def evening(directory: Path) -> RunReport:
    ran = [record for record in RECORDS if record.run.id == run_id(CURRENT_RUN)]
    with history_of(directory, *RECORDS) as history:
        (run,) = run_reports(ran, history, {run_id(CURRENT_RUN): runs(directory).popitem()[1]})
    return run


def test_rows_that_began_in_one_run_are_listed_each_and_are_one_active_alarm(tmp_path: Path) -> None:
    names = [PASSED.row.id, SLOW.row.id]
    before = [of_run(name, number) for name in names for number in NUMBERS[:-1]]
    ran = [of_run(name, CURRENT_RUN, 5.0, "regressed") for name in names]
    with history_of(tmp_path, *before, *ran) as history:
        (run,) = run_reports(ran, history)
        (of_one_row,) = run_reports(ran[1:], history)
    assert {one.period.subject for one in run.alarms_by_state["new"]} == {*names}
    assert run.active_alarms == 1
    first, part = run.alarms
    assert (first.pages, part.pages, part.part_of) == (True, False, first.id)
    assert line_of(part).endswith(f"; part of {first.id}")
    # Without the other row, its page is still there.
    assert {one.id for one in of_one_row.alarms} == {first.id, part.id}


def test_a_run_its_rows_and_alarms_begin_with_it_and_points_keep_the_time_of_their_jobs(tmp_path: Path) -> None:
    run = evening(tmp_path)
    assert run.begin_s == begin_s(CURRENT_RUN)
    assert [one.time_s for one in listed_runs([run])] == list(map(begin_s, NUMBERS))
    assert run.list_entry.time_s == begin_s(CURRENT_RUN)
    (found,) = (one for one in run.rows if one.record.row.id == BROKEN.row.id)
    assert since_line(found.since) == f"{minute_when_began(CURRENT_RUN - 2)}, 3 runs"
    assert found.since is not None
    assert found.since.good is not None
    assert found.since.good.begin_s == begin_s(CURRENT_RUN - 3)
    text = html_text(row_page(found, run, [], [], {}))
    for number in NUMBERS[1:]:
        assert f">{minute_when_began(number)}</time>" in text
    assert f"{minute_of(CURRENT_RUN - 1)}</title>" in text
    (alarm,) = run.alarms
    assert (alarm.since.time_s, alarm.fixed_s) == (begin_s(CURRENT_RUN - 3), begin_s(CURRENT_RUN - 1))
    assert line_of(alarm).endswith(f": fixed {minute_when_began(CURRENT_RUN - 1)}")
    (found,) = (one for one in run.rows if one.record.row.id == PASSED.row.id)
    assert [point.time_s for point in found.past.runs] == [begin_s(number) + TOOK_S for number in NUMBERS]
    assert minute_of(CURRENT_RUN) != minute_when_began(CURRENT_RUN)
