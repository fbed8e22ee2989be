"""The end of a session: its run's alarms, report and files, by its records and the history that has them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.common.files import relative_path, write_whole
from pytest_gsw.common.redact import redact
from pytest_gsw.history.comparison import ClusterText, cluster_text
from pytest_gsw.history.database import HistoryError
from pytest_gsw.history.model import cluster_of, points_of
from pytest_gsw.reports.from_records import HistoryReader, accepted_in, run_report
from pytest_gsw.reports.run_report import ReportedRun, RunReport
from pytest_gsw.results import cluster_result, junit, outcomes
from pytest_gsw.results.manifest import CaseBesideRows
from pytest_gsw.results.sweep import lost_tiles, node_cases
from pytest_gsw.session import junit_file
from pytest_gsw.session.screen import write
from pytest_gsw.session.session_alarms import SessionAlarms
from pytest_gsw.session.session_history import history_at
from pytest_gsw.session.state import SESSION


def report_run(config: pytest.Config, exit_status: int, *, has_alarms: bool, is_on_github: bool) -> bool:
    """Find the alarms of the run, if it has any; write its report and what GitHub Actions takes, if wanted.

    The history is opened here, once: the screen, pages and texts are made of what was found.

    Returns:
        True if all files were written.
    """
    state = config.stash[SESSION]
    settings, session_history = state.settings, state.history
    is_reported = settings.output.report is not None or is_on_github
    # Only the report has the rows without a record.
    known = state.counts.records
    whole = junit.read_whole_run(settings.run_directory, known) if is_reported else (state.run_records(), {}, None)
    records, missing, _ = whole
    run = ReportedRun(relative_path(settings.run_directory), missing, exit_status, alarms=())
    report = None
    try:
        try:
            budget = None if session_history is None else session_history.budget
            with history_at(settings.output.history, budget) as history:
                reader = None if history is None else HistoryReader(history, accepted_in(settings.baselines, records))
                if reader is not None and has_alarms:
                    slow_before = None if session_history is None else session_history.slow_before
                    run = replace(run, alarms=reader.alarms(records, slow_before))
                    state.alarms = SessionAlarms(run.alarms or ())
                    if session_history is not None and records:
                        session_history.update(reader.series(cluster_of(records[0])))
                if is_reported:
                    report = run_report(records, run, reader)
        except HistoryError as error:
            problem = redact(str(error), os.environ)
            if has_alarms:
                state.alarms = state.alarms or SessionAlarms(problem=problem)
            if is_reported:
                write(config, f"gsw: the report does without the history: {problem}")
                report = run_report(records, run)
        if report is not None:
            if settings.output.report is not None:
                from pytest_gsw.reports.pages import write_report  # few sessions write pages

                write_report([report], settings.output.report)
            _write_texts(config, report, settings.output.report, is_on_github=is_on_github)
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


def report_cluster(session: pytest.Session) -> None:
    """Report incident and nodes to pytest and JUnit as test cases, and keep the cluster's text for the summary."""
    config = session.config
    state = config.stash[SESSION]
    records, cluster_state = state.run_records(), ClusterText()
    if state.peers is not None:
        current_run = {record.row.id: points[0] for record in records if (points := points_of(record))}
        cluster_state = redact(cluster_text(state.peers.together.including_run(current_run)), os.environ)
    state.cluster_text = cluster_state
    incident = redact(cluster_result.incident_of(records), os.environ)
    cases = [] if incident is None else [incident.case(cluster_state.since)]
    cases += redact(node_cases(state.sweep, lost_tiles(records), junit_file.cluster_of(state.settings)), os.environ)
    session.testscollected += len(cases)  # or pytest counts beyond 100 %
    for case in cases:
        _report_case(session, case)


def _report_case(session: pytest.Session, case: CaseBesideRows) -> None:
    for report in junit_file.reports_of_case(case):
        report.gsw_case = case  # type: ignore[attr-defined]
        report.gsw_junit = case.class_name, case.name  # type: ignore[attr-defined]
        session.config.hook.pytest_runtest_logreport(report=report)
    if case.status == outcomes.FAILED and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
