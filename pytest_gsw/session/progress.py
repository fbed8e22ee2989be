"""Progress of a waiting session, in lines of pytest's own terminal reporter, and the live file of its run."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.common.files import PRIVATE, relative_path
from pytest_gsw.common.node_lists import compressed
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plain_table
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.executor.executor import Executor, Ticker
from pytest_gsw.executor.phases import Finished, Phase, RepeatObserver
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.jobs.model import Attempt
from pytest_gsw.jobs.spec import expected_run_s
from pytest_gsw.results.cluster_result import ClusterResult
from pytest_gsw.results.record import NO_CLUSTER, JobFacts, Record
from pytest_gsw.results.row_text import attempt_text
from pytest_gsw.results.run_progress import COLUMNS, OpenRow, RunProgress, State, write_progress
from pytest_gsw.results.run_progress import NAME as PROGRESS
from pytest_gsw.session.collect import BaselineItem
from pytest_gsw.session.settings import SETTINGS, Settings
from pytest_gsw.session.terminal import OUTCOME_COUNTS

if TYPE_CHECKING:
    from pytest_gsw.session.row import RowPlan, SessionRow

#: Seconds between two progress lines of a waiting session: some CI servers end builds after ten minutes without output.
HEARTBEAT_S = 570.0

#: Seconds between two updates of the line on a terminal, of the live file, and of the report's pages; and the least
#: time between them, in times of what one takes.
LIVE_S, FILE_S, PAGES_S = 1.0, 5.0, 60.0
_LEAST_PAUSE = 50

#: True while that line is shown.
_LIVE = pytest.StashKey[bool]()
#: True once the table of open rows is asked for.
_ASKED = pytest.StashKey[bool]()


@dataclass
class _Repeated:
    """Something to do with the progress again and again, by monotonic seconds."""

    act: Callable[[RunProgress], None]
    interval_s: float
    due_s: float


def make_ticker(config: pytest.Config, rows: Mapping[str, SessionRow]) -> Ticker:
    """A function that shows the progress of a waiting session, and writes it for other processes.

    On a terminal it rewrites one line; else it writes a line every few minutes. With ``-q`` or without a terminal
    plugin, it shows only what is asked for.
    """
    reporter, settings, now_s = _reporter(config), config.stash[SETTINGS], time.monotonic()
    repeated = []
    if reporter is not None and config.getoption("verbose", -1) >= 0:
        live = reporter.isatty and reporter.hasmarkup
        interval_s, show = (LIVE_S, _write_live) if live else (HEARTBEAT_S, write)
        repeated.append(_Repeated(lambda progress: show(config, _line_of(progress)), interval_s, now_s + interval_s))
    if settings.replay is None:
        repeated.append(_Repeated(partial(write_progress, settings.run_directory), FILE_S, now_s))
        if settings.report is not None:
            repeated.append(_Repeated(partial(_write_pages, config, settings.report), PAGES_S, now_s + PAGES_S))
    simulated_s, begun_s = _simulated_s(settings), time.time()
    gpus = min(settings.limits.gpus, (settings.cluster and settings.cluster.gpus) or math.inf)
    gpus = gpus if gpus < math.inf else 0.0

    def tick(executor: Executor) -> None:
        is_asked = config.stash.get(_ASKED, False)
        due = [one for one in repeated if time.monotonic() >= one.due_s]
        if not due and not is_asked:
            return
        phases = [(rows[row_id].plan, phase) for row_id, phase in executor.phases.items()]
        open_rows = (_open_row(plan, phase, simulated_s) for plan, phase in phases if not isinstance(phase, Finished))
        finished = (plan.node_id for plan, phase in phases if isinstance(phase, Finished))
        full = redact(executor.full, os.environ)
        progress = RunProgress(time.time(), begun_s, gpus, full, tuple(open_rows), tuple(finished))
        for one in due:
            begin_s = time.monotonic()
            with contextlib.suppress(Exception):  # it must not stop the monitoring; the session's end reports it
                one.act(progress)
            end_s = time.monotonic()
            one.due_s = end_s + max(one.interval_s, _LEAST_PAUSE * (end_s - begin_s))
        if is_asked:
            config.stash[_ASKED] = False
            write(config, f"{plain_table(progress.lines, *COLUMNS, style='simple')}\n{_line_of(progress)}")

    return tick


def ask_for_table(config: pytest.Config, *_: object) -> None:
    """Let the session write the table of its open rows as soon as it waits: the handler of a signal."""
    config.stash[_ASKED] = True


def _line_of(progress: RunProgress) -> str:
    return f"gsw: {', '.join(progress.parts[::-1])}"


def _write_pages(config: pytest.Config, directory: Path, _: RunProgress) -> None:
    """Write the pages of a session that goes on; the history, which may be slow, is left to its end."""
    from pytest_gsw.reports.from_records import run_report
    from pytest_gsw.reports.pages import write_report  # few sessions write pages
    from pytest_gsw.reports.run_report import ReportedRun
    from pytest_gsw.results.junit import read_whole_run

    place, known = config.stash[SETTINGS].run_directory, config.stash[OUTCOME_COUNTS].records
    records, missing, progress = read_whole_run(place, known, goes_on=True)
    write_report([run_report(records, ReportedRun(relative_path(place), missing, progress=progress))], directory)


def _simulated_s(settings: Settings) -> float | None:
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


def _reporter(config: pytest.Config) -> pytest.TerminalReporter | None:
    """The terminal reporter; ``None`` without one."""
    reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    return reporter


def write(config: pytest.Config, line: str) -> None:
    """Write a line of its own."""
    line = redact(line, os.environ)
    reporter = _reporter(config)
    with contextlib.suppress(OSError):  # a closed terminal must not stop the monitoring of jobs
        if reporter is not None:
            clear_live(config)
            reporter.ensure_newline()
            reporter.write_line(line)
        else:
            sys.stdout.write(f"{line}\n")


def _write_live(config: pytest.Config, text: str) -> None:
    """Write a line that the next one replaces, cut to the width of the terminal."""
    reporter = _reporter(config)
    if reporter is not None:
        if _LIVE not in config.stash:
            reporter.ensure_newline()
        config.stash[_LIVE] = True
        with contextlib.suppress(OSError):
            reporter.rewrite(text[: shutil.get_terminal_size().columns - 1], erase=True)


def clear_live(config: pytest.Config) -> None:
    """Clear the progress line before other output."""
    reporter = _reporter(config)
    if reporter is not None and _LIVE in config.stash:
        del config.stash[_LIVE]
        with contextlib.suppress(OSError):
            reporter.rewrite("", erase=True)
            reporter.write("\r")


# -- The live file of a session's run ----------------------------------------------------------------
#
# The live file has a session as JSON lines, for tools that follow it. The first line describes the session; one line
# follows for each row as soon as it is judged, one for an incident of the whole cluster, if any, and the last has the
# end of the session. A file without that one comes from a session that died, or still runs. Its open rows are in a file
# that is written anew each time, :mod:`pytest_gsw.results.run_progress`: it would grow by each step of each job.


#: The live file, in the run's directory.
_NAME = "live.jsonl"
#: The record of a row that has its line in the live file.
_WRITTEN_RECORD = pytest.StashKey[Record]()
#: The descriptor of the live file, open until pytest closes the session's config.
_LIVE_FILE = pytest.StashKey[int]()


def begin_live(config: pytest.Config, rows: Iterable[pytest.Item]) -> None:
    """Write the live file's line of the session.

    Raises:
        OSError: It cannot be written.
    """
    settings = config.stash[SETTINGS]
    cluster = settings.cluster.name if settings.cluster else NO_CLUSTER
    (settings.run_directory / PROGRESS).unlink(missing_ok=True)  # of an earlier session
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    config.stash[_LIVE_FILE] = descriptor = os.open(settings.run_directory / _NAME, flags, PRIVATE)
    config.add_cleanup(partial(os.close, descriptor))
    node_ids = [item.nodeid for item in rows]
    os.write(descriptor, _line(event="session", run_id=settings.run_id, cluster=cluster, rows=node_ids))


def add_row(item: BaselineItem, record: Record) -> None:
    """Write the live file's line of a row that has been judged, once."""
    if item.stash.get(_WRITTEN_RECORD, None) is not record:
        item.stash[_WRITTEN_RECORD] = record
        _append(item.config, f'{{"event":"row","record":{record.text}}}\n'.encode("ascii"))


def add_incident(config: pytest.Config, found: ClusterResult, since: str) -> None:
    """Write the live file's line of an incident."""
    line = _line(
        event="incident",
        run_id=config.stash[SETTINGS].run_id,
        cluster=found.cluster,
        fact=f"{found.fact}{since}",
        throughput_change=found.change,
        fails=found.fails,
        rows=found.rows,
        slower=found.slower,
        parts=found.parts,
        canaries=found.canaries,
    )
    _append(config, line)


def end_live(config: pytest.Config, exit_status: int) -> None:
    """Write the live file's last line."""
    run_id, counts = config.stash[SETTINGS].run_id, Counter(config.stash[OUTCOME_COUNTS].outcomes)
    _append(config, _line(event="end", run_id=run_id, outcomes=counts, exit_status=exit_status))


def _line(**content: Any) -> bytes:
    return f"{json.dumps(content, separators=(',', ':'), allow_nan=False)}\n".encode("ascii")


def _append(config: pytest.Config, line: bytes) -> None:
    if _LIVE_FILE not in config.stash:  # no row has begun
        return
    try:
        os.write(config.stash[_LIVE_FILE], line)
    except OSError as error:
        path = config.stash[SETTINGS].run_directory / _NAME
        write(config, f"gsw: a line of {path} could not be written: {error.strerror}")
