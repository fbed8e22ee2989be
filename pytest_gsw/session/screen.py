"""What a session says while it waits: lines through pytest's own terminal reporter."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sys
import time
from collections.abc import Mapping

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.fleet.fleet import Fleet, Ticker
from pytest_gsw.fleet.rows import RepeatObserver, RowStatus
from pytest_gsw.fleet.watch import Sample
from pytest_gsw.jobs.model import Attempt
from pytest_gsw.jobs.spec import expected_run_s
from pytest_gsw.results import progress_text
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.nodes import compressed
from pytest_gsw.results.row_text import attempt_text
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import SETTINGS

#: Seconds between two lines that say where a waiting session stands.
HEARTBEAT_S = 240.0

#: Seconds between two states of the line on a terminal.
LIVE_S = 1.0

#: Set while that line is shown.
_LIVE = pytest.StashKey[bool]()


def make_ticker(config: pytest.Config, rows: Mapping[str, BaselineItem]) -> Ticker:
    """What tells the user where a waiting session stands.

    On a terminal that is one line that is written over; else a line every few minutes, because CI servers
    end builds that are silent. With ``-q`` and without a terminal plugin, nothing.
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

    def tell(fleet: Fleet) -> None:
        nonlocal last_s
        if time.monotonic() - last_s < interval_s:
            return
        last_s = time.monotonic()
        text = progress_text.standing(
            [_progress(rows[one.row_id], one, simulated_s) for one in fleet.row_statuses()], gpus, fleet.full
        )
        if live:
            _write_live(config, text)
        else:
            write(config, text)

    return tell


def _simulated_s(settings: Settings) -> float | None:
    """How long a simulated job takes; the documented time is the real recipe's."""
    if settings.cluster is None or not settings.cluster.simulated:
        return None
    from pytest_gsw.demo.recipe import seconds_of  # no other session simulates anything

    try:
        return seconds_of(os.environ)
    except ConfigurationError:
        return None  # each of its jobs says so


def _progress(item: BaselineItem, row: RowStatus, simulated_s: float | None) -> progress_text.RowProgress:
    sample = row.sample or Sample()
    return progress_text.RowProgress(
        item.baseline.id,
        item.baseline.gpus,
        row.status,
        steps=sample.steps,
        of=sample.of,
        step_time_s=sample.step_time_s,
        over=row.over,
        expected_s=expected_run_s(item.baseline) if simulated_s is None else simulated_s,
    )


def repeat_teller(config: pytest.Config) -> RepeatObserver:
    """Tells the user of every job that is not its row's last."""

    def tell(row_id: str, attempt: Attempt) -> None:
        if config.getoption("verbose", -1) >= 0:
            facts = JobFacts.of(attempt.job_id, "", attempt.status, attempt.why)
            nodes = compressed(attempt.excluded_nodes)
            without = f", without {nodes}{' where that is possible' if attempt.measured else ''}" if nodes else ""
            write(config, f"gsw: {row_id}: job {attempt_text(facts)}; submitted again{without}")

    return tell


def _reporter(config: pytest.Config) -> pytest.TerminalReporter | None:
    """What writes to the screen; ``None`` where nothing does."""
    reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    return reporter


def write(config: pytest.Config, line: str) -> None:
    """Write a line of its own."""
    line = quoted(line, os.environ)
    reporter = _reporter(config)
    with contextlib.suppress(OSError):  # a terminal that was closed must not keep jobs from being looked after
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
    """Wipe the line that says where the session stands, so that others can write."""
    reporter = _reporter(config)
    if reporter is not None and _LIVE in config.stash:
        del config.stash[_LIVE]
        with contextlib.suppress(OSError):
            reporter.rewrite("", erase=True)
            reporter.write("\r")
