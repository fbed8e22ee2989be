"""Progress of a waiting session, in lines of pytest's own terminal reporter."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.node_lists import compressed
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plain_table
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.executor.executor import Executor, Ticker
from pytest_gsw.executor.phases import Finished, Phase, RepeatObserver
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.jobs.model import Attempt
from pytest_gsw.jobs.spec import expected_run_s
from pytest_gsw.results.record import JobFacts
from pytest_gsw.results.row_text import attempt_text
from pytest_gsw.results.run_progress import COLUMNS, OpenRow, RunProgress, State, write_progress
from pytest_gsw.session.row_plan import RowPlan
from pytest_gsw.session.screen import terminal_reporter, write, write_live
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.state import SESSION

#: Seconds between two progress lines of a waiting session: some CI servers end builds after ten minutes without output.
HEARTBEAT_S = 570.0

#: Seconds between two updates of the line on a terminal, of the live file, and of the report's pages; and the least
#: time between them, in times of what one takes.
LIVE_S, FILE_S, PAGES_S = 1.0, 5.0, 60.0
_LEAST_PAUSE = 50


@dataclass
class _Repeated:
    """Something to do with the progress again and again, by monotonic seconds."""

    act: Callable[[RunProgress], None]
    interval_s: float
    due_s: float


def make_ticker(config: pytest.Config, plan_of: Callable[[str], RowPlan]) -> Ticker:
    """A function that shows the progress of a waiting session, and writes it for other processes.

    On a terminal it rewrites one line; else it writes a line every few minutes. With ``-q`` or without a terminal
    plugin, it shows only what is asked for.
    """
    reporter, state, now_s = terminal_reporter(config), config.stash[SESSION], time.monotonic()
    settings, repeated = state.settings, []
    if reporter is not None and config.getoption("verbose", -1) >= 0:
        live = reporter.isatty and reporter.hasmarkup
        interval_s, show = (LIVE_S, write_live) if live else (HEARTBEAT_S, write)
        repeated.append(_Repeated(lambda progress: show(config, _line_of(progress)), interval_s, now_s + interval_s))
    if settings.replay is None:
        repeated.append(_Repeated(partial(write_progress, settings.run_directory), FILE_S, now_s))
        if settings.output.report is not None:
            repeated.append(_Repeated(partial(_write_pages, config, settings.output.report), PAGES_S, now_s + PAGES_S))
    job_s, begun_s = simulated_s(settings), time.time()
    gpus = min(settings.jobs.limits.gpus, (settings.cluster and settings.cluster.gpus) or math.inf)
    gpus = gpus if gpus < math.inf else 0.0

    def tick(executor: Executor) -> None:
        is_asked = state.is_table_wanted
        due = [action for action in repeated if time.monotonic() >= action.due_s]
        if not due and not is_asked:
            return
        phases = [(plan_of(row_id), phase) for row_id, phase in executor.rows.phases.items()]
        open_rows = (_open_row(plan, phase, job_s) for plan, phase in phases if not isinstance(phase, Finished))
        finished = (plan.node_id for plan, phase in phases if isinstance(phase, Finished))
        full = redact(executor.full, os.environ)
        progress = RunProgress(time.time(), begun_s, gpus, full, tuple(open_rows), tuple(finished))
        for action in due:
            begin_s = time.monotonic()
            with contextlib.suppress(Exception):  # it must not stop the monitoring; the session's end reports it
                action.act(progress)
            end_s = time.monotonic()
            action.due_s = end_s + max(action.interval_s, _LEAST_PAUSE * (end_s - begin_s))
        if is_asked:
            state.is_table_wanted = False
            write(config, f"{plain_table(progress.lines, *COLUMNS, style='simple')}\n{_line_of(progress)}")

    return tick


def ask_for_table(config: pytest.Config, *_: object) -> None:
    """Let the session write the table of its open rows as soon as it waits: the handler of a signal."""
    config.stash[SESSION].is_table_wanted = True


def _line_of(progress: RunProgress) -> str:
    return f"gsw: {', '.join(progress.parts[::-1])}"


def _write_pages(config: pytest.Config, directory: Path, _: RunProgress) -> None:
    """Write the pages of a session that goes on; the history, which may be slow, is left to its end."""
    from pytest_gsw.reports.from_records import run_report
    from pytest_gsw.reports.pages import write_report  # few sessions write pages
    from pytest_gsw.reports.run_report import ReportedRun
    from pytest_gsw.results.junit import read_whole_run

    state = config.stash[SESSION]
    place, known = state.settings.run_directory, state.counts.records
    records, missing, progress = read_whole_run(place, known, goes_on=True)
    write_report([run_report(records, ReportedRun(relative_path(place), missing, progress=progress))], directory)


def simulated_s(settings: Settings) -> float | None:
    """Seconds of a simulated job; the documented time is that of the real recipe."""
    if settings.cluster is None or not settings.cluster.simulated:
        return None
    from pytest_gsw.demo.recipe import seconds_of  # no other session simulates anything

    try:
        return seconds_of(os.environ)
    except ConfigurationError:
        return None  # each of its jobs reports that


def _open_row(plan: RowPlan, phase: Phase, simulated_s: float | None) -> OpenRow:
    row, seen = plan.baseline, phase.submitted
    expected_s = expected_run_s(row) if simulated_s is None else simulated_s
    if seen is None:
        return OpenRow(plan.node_id, State.QUEUED, row.gpus, left_s=expected_s)
    status, sample = seen.status, seen.sample or Sample()
    state = State.__members__.get(status.state.name, State.ENDED)
    if expected_s is not None and sample.of is not None:
        expected_s *= max(0.0, 1 - sample.steps / sample.of)
    since_s = status.start_s or status.submit_s or seen.job.submitted_s or None
    job = (seen.job.id, status.reason, since_s, status.expected_start_s)
    return OpenRow(plan.node_id, state, row.gpus, *job, sample.steps, sample.of, expected_s)


def repeat_reporter(config: pytest.Config) -> RepeatObserver:
    """A function that reports every job with a successor."""

    def report(row_id: str, attempt: Attempt) -> None:
        if config.getoption("verbose", -1) >= 0:
            facts = JobFacts.of(attempt.job_id, "", attempt.status, why_repeated=attempt.why)
            nodes = compressed(attempt.excluded_nodes)
            without = f", without {nodes}{' where that is possible' if attempt.avoids else ''}" if nodes else ""
            write(config, f"gsw: {row_id}: job {attempt_text(facts)}; submitted again{without}")

    return report
