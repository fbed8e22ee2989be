"""The end of a session: its run's alarms, report and files, by its records and the history that has them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.common.files import relative_path, write_whole
from pytest_gsw.common.redact import redact
from pytest_gsw.history.alarms import Acknowledgement, Alarm, Kind, State, alarms, drifts, regressions
from pytest_gsw.history.comparison import ClusterText, advice_line, cluster_text, line_of
from pytest_gsw.history.database import HistoryError
from pytest_gsw.history.model import ExperimentKey, cluster_of, points_of
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.reports.from_records import HistoryReader, accepted_in, run_report
from pytest_gsw.reports.reported_row import ReportedRow, since_facts, since_of
from pytest_gsw.reports.run_report import ReportedRun
from pytest_gsw.results import outcomes
from pytest_gsw.results.cluster_result import incident_of
from pytest_gsw.results.junit import read_whole_run
from pytest_gsw.results.manifest import CaseBesideRows
from pytest_gsw.results.record import Record
from pytest_gsw.results.sweep import lost_tiles, node_cases
from pytest_gsw.session import junit_file
from pytest_gsw.session.progress import add_incident, write
from pytest_gsw.session.session_history import history_at
from pytest_gsw.session.settings import ALARMS, CLUSTER_PEERS, CLUSTER_TEXT, SESSION_HISTORY, SETTINGS, SWEEP
from pytest_gsw.session.terminal import OUTCOME_COUNTS, run_records

if TYPE_CHECKING:
    from pytest_gsw.reports.run_report import RunReport


@dataclass(frozen=True)
class SessionAlarms:
    """The alarms of a session's rows, and of its cluster's nodes."""

    found: tuple[Alarm, ...] = ()
    #: Why the history could not be read; empty if it was.
    problem: str = ""

    def lines(self, slow: Collection[str] = ()) -> tuple[str, ...]:
        """The lines for the screen; none if the rows' own lines have all of it.

        ``slow`` are nodes with a line of their own: their alarms are listed if acknowledged or ended.
        """
        if self.problem:
            return (f"not known: {self.problem}",)
        of_nodes = [one for one in self.found if one.period.kind is Kind.NODE and one.period.subject in slow]
        found = [one for one in self.found if one not in of_nodes or not one.is_active or one.acknowledged]
        # The line of a row has all that is known of a regression of this run.
        if all(one.state is State.NEW and one.period.kind is Kind.REGRESSION for one in found):
            return ()
        return tuple(line for one in found for line in (line_of(one), advice_line(one)) if line)

    def of_nodes(self) -> Mapping[str, str]:
        """The ids of the nodes' alarms, by node."""
        return {one.period.subject: one.id for one in self.found if one.period.kind is Kind.NODE}


def report_run(config: pytest.Config, exit_status: int, *, has_alarms: bool, is_on_github: bool) -> bool:
    """Find the alarms of the run, if it has any; write its report and what GitHub Actions takes, if wanted.

    The history is opened here, once: the screen, pages and texts are made of what was found.

    Returns:
        True if all files were written.
    """
    settings = config.stash[SETTINGS]
    is_reported = settings.report is not None or is_on_github
    # Only the report has the rows without a record.
    known = config.stash[OUTCOME_COUNTS].records
    whole = read_whole_run(settings.run_directory, known) if is_reported else (run_records(config), {}, None)
    records, missing, _ = whole
    run = ReportedRun(relative_path(settings.run_directory), missing, exit_status, alarms=())
    report = None
    try:
        try:
            session_history = config.stash.get(SESSION_HISTORY, None)
            budget = None if session_history is None else session_history.budget
            with history_at(settings.history, budget) as history:
                reader = None if history is None else HistoryReader(history, accepted_in(settings.baselines, records))
                if reader is not None and has_alarms:
                    slow_before = None if session_history is None else session_history.slow_before
                    run = replace(run, alarms=reader.alarms(records, slow_before))
                    config.stash[ALARMS] = SessionAlarms(run.alarms or ())
                    if session_history is not None and records:
                        session_history.update(reader.series(cluster_of(records[0])))
                if is_reported:
                    report = run_report(records, run, reader)
        except HistoryError as error:
            problem = redact(str(error), os.environ)
            if has_alarms:
                config.stash.setdefault(ALARMS, SessionAlarms(problem=problem))
            if is_reported:
                write(config, f"gsw: the report does without the history: {problem}")
                report = run_report(records, run)
        if report is not None:
            if settings.report is not None:
                from pytest_gsw.reports.pages import write_report  # few sessions write pages

                write_report([report], settings.report)
            _write_texts(config, report, settings.report, is_on_github=is_on_github)
    except OSError as error:
        write(config, f"gsw: the report cannot be written: {error.strerror}: {error.filename}")
        return False
    return True


def _write_texts(config: pytest.Config, report: RunReport, directory: Path | None, *, is_on_github: bool) -> None:
    """Write the texts for CI next to the pages, and the step's summary and annotations for GitHub Actions."""
    from pytest_gsw.reports.ci import TEXTS, github

    if directory is not None:
        for text in TEXTS.values():
            write_whole(directory / text.file, f"{text.of(report).rstrip()}\n")
        write(config, f"gsw: the report is {relative_path(directory / 'index.html')}")
    if is_on_github:
        if place := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(place).open("a", encoding="utf-8") as summary:  # other steps write there, too
                summary.write(f"{TEXTS['markdown'].of(report)}\n")
        for line in github(report).splitlines():
            write(config, line)


def row_alarms(
    record: Record, past: RowHistory, known: Sequence[Acknowledgement]
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """The active alarms of a row, and since when it is too slow as the report has it; without secrets.

    ``past`` are the runs of the row before this one.
    """
    key = ExperimentKey(record.row.row_id, record.run.cluster, record.row.experiment)
    whole = past.including_run(points_of(record))
    found = alarms((*regressions(key, whole), *drifts(key, whole)), known, time.time())
    text = "; ".join(line_of(one) for one in found if one.is_active)
    return redact((text or None, since_facts(since_of(ReportedRow(record, record.row.id, whole)))), os.environ)


def report_cluster(session: pytest.Session) -> None:
    """Report incident and nodes to pytest and JUnit as test cases, and keep the cluster's text for the summary."""
    config = session.config
    records = run_records(config)
    if CLUSTER_PEERS in config.stash:
        current_run = {record.row.id: points[0] for record in records if (points := points_of(record))}
        together = config.stash[CLUSTER_PEERS].together.including_run(current_run)
        config.stash[CLUSTER_TEXT] = redact(cluster_text(together), os.environ)
    cluster_state = config.stash.setdefault(CLUSTER_TEXT, ClusterText())
    incident = redact(incident_of(records), os.environ)
    cases = [] if incident is None else [incident.case(cluster_state.since)]
    sweep = config.stash.get(SWEEP, None)
    cases += redact(node_cases(sweep, lost_tiles(records), junit_file.cluster_of(config.stash[SETTINGS])), os.environ)
    session.testscollected += len(cases)  # or pytest counts beyond 100 %
    for case in cases:
        _report_case(session, case)
    if incident is not None:
        add_incident(config, incident, cluster_state.since)


def _report_case(session: pytest.Session, case: CaseBesideRows) -> None:
    name, text = case.node_id, case.text or case.fact
    shown: Any = (name, None, text) if case.outcome == "skipped" else text
    call = pytest.TestReport(name, (name, None, name), {}, case.outcome, shown, "call")
    properties = [(case.property_name, case.fact)]  # which pytest writes after a teardown
    teardown = pytest.TestReport(name, call.location, {}, "passed", None, "teardown", user_properties=properties)
    for report in (call, teardown):
        report.gsw_junit = (case.class_name, case.name, 0.0, case.fact)  # type: ignore[attr-defined]
        report.gsw_case = case  # type: ignore[attr-defined]
        session.config.hook.pytest_runtest_logreport(report=report)
    if case.status == outcomes.FAILED and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
