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
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.common.files import PRIVATE
from pytest_gsw.common.node_lists import compressed
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.executor.executor import Executor, Ticker
from pytest_gsw.executor.phases import Finished, Phase, RepeatObserver, submitted_job_of
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.jobs.model import Attempt
from pytest_gsw.jobs.spec import expected_run_s
from pytest_gsw.results.record import NO_CLUSTER, JobFacts, Record
from pytest_gsw.results.row_text import attempt_text
from pytest_gsw.results.summary import ClusterResult, RowProgress, standing
from pytest_gsw.session.collect import BaselineItem
from pytest_gsw.session.settings import SETTINGS, Settings
from pytest_gsw.session.terminal import OUTCOME_COUNTS

if TYPE_CHECKING:
    from pytest_gsw.session.row import SessionRow
    from pytest_gsw.tables.model import Baseline

#: Seconds between two progress lines of a waiting session.
HEARTBEAT_S = 240.0

#: Seconds between two updates of the line on a terminal.
LIVE_S = 1.0

#: True while that line is shown.
_LIVE = pytest.StashKey[bool]()


def make_ticker(config: pytest.Config, rows: Mapping[str, SessionRow]) -> Ticker:
    """A function that shows the progress of a waiting session.

    On a terminal it rewrites one line; else it writes a line every few minutes, because CI servers end builds
    without output. With ``-q`` or without a terminal plugin, it does nothing.
    """
    reporter = _reporter(config)
    if reporter is None or config.getoption("verbose", -1) < 0:
        return lambda _: None
    settings = config.stash[SETTINGS]
    simulated_s = _simulated_s(settings)
    has = settings.cluster.gpus if settings.cluster is not None else None
    gpus = min(settings.limits.gpus, has or math.inf)
    live = reporter.isatty and reporter.hasmarkup
    interval_s = LIVE_S if live else HEARTBEAT_S
    last_s = time.monotonic()

    def show(executor: Executor) -> None:
        nonlocal last_s
        if time.monotonic() - last_s < interval_s:
            return
        last_s = time.monotonic()
        text = standing(
            [_progress(rows[row_id].baseline, one, simulated_s) for row_id, one in executor.phases.items()],
            gpus,
            executor.full,
        )
        if live:
            _write_live(config, text)
        else:
            write(config, text)

    return show


def _simulated_s(settings: Settings) -> float | None:
    """Seconds of a simulated job; the documented time is that of the real recipe."""
    if settings.cluster is None or not settings.cluster.simulated:
        return None
    from pytest_gsw.demo.recipe import seconds_of  # no other session simulates anything

    try:
        return seconds_of(os.environ)
    except ConfigurationError:
        return None  # each of its jobs reports that


def _progress(row: Baseline, phase: Phase, simulated_s: float | None) -> RowProgress:
    seen = submitted_job_of(phase)
    sample = (seen and seen.sample) or Sample()
    return RowProgress(
        row.id,
        row.gpus,
        None if seen is None else seen.status,
        steps=sample.steps,
        of=sample.of,
        step_time_s=sample.step_time_s,
        over=isinstance(phase, Finished),
        expected_s=expected_run_s(row) if simulated_s is None else simulated_s,
    )


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
# end of the session. A file without that one comes from a session that died, or still runs.


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
