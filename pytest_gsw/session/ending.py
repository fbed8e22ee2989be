"""What a session leaves: the report and the live file of its run.

The live file is a session as JSON lines, for tools that follow it. The first line is of the session, one follows for
each row as soon as it is judged, one for an incident of the whole cluster, where there is one, and the last says how
the session ended; a file without that one is of a session that died, or still runs.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.common.files import PRIVATE, from_here, write_whole
from pytest_gsw.results.facts import NO_CLUSTER
from pytest_gsw.results.incident import WholeNight
from pytest_gsw.results.record import Record
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.screen import write
from pytest_gsw.session.stash import ALARMS, SETTINGS
from pytest_gsw.session.tally import TALLY, Tally

if TYPE_CHECKING:
    from pytest_gsw.history.store import History

#: The live file, in the run's directory.
_NAME = "live.jsonl"
#: The record of a row that has its line in the live file.
_TOLD = pytest.StashKey[Record]()
#: The descriptor of the live file, which is open until pytest lets go of the session's config.
_LIVE = pytest.StashKey[int]()


def begin_live(config: pytest.Config, rows: Iterable[pytest.Item]) -> None:
    """Write the live file's line of the session.

    Raises:
        OSError: It cannot be written.
    """
    settings = config.stash[SETTINGS]
    cluster = settings.cluster.name if settings.cluster else NO_CLUSTER
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    config.stash[_LIVE] = descriptor = os.open(settings.run_directory / _NAME, flags, PRIVATE)
    config.add_cleanup(partial(os.close, descriptor))
    node_ids = [item.nodeid for item in rows]
    os.write(descriptor, _line(event="session", run_id=settings.run_id, cluster=cluster, rows=node_ids))


def add_row(item: BaselineItem, record: Record) -> None:
    """Write the live file's line of a row that has been judged, once."""
    if item.stash.get(_TOLD, None) is not record:
        item.stash[_TOLD] = record
        _append(item.config, f'{{"event":"row","record":{record.text}}}\n'.encode("ascii"))


def add_incident(config: pytest.Config, found: WholeNight, since: str) -> None:
    """Write the live file's line of an incident."""
    line = _line(
        event="incident",
        run_id=config.stash[SETTINGS].run_id,
        cluster=found.cluster,
        fact=f"{found.fact}{since}",
        throughput_change=found.change,
        rows=found.rows,
        slower=found.slower,
        parts=found.parts,
        canaries=found.canaries,
    )
    _append(config, line)


def leave_files(config: pytest.Config, exit_status: int) -> bool:
    """The report, what a CI server takes, and the last JSON line.

    Returns:
        Whether all that was asked for is there.
    """
    settings, tally = config.stash[SETTINGS], config.stash.get(TALLY, None)
    if tally is None or not tally.rows:
        return True
    done = True
    if settings.report is not None or _on_github():
        try:
            for line in _leave_report(config, tally, exit_status):
                write(config, line)
        except OSError as error:
            write(config, f"gsw: the report cannot be written: {error.strerror}: {error.filename}")
            done = False
    counts = Counter(tally.outcomes)
    _append(config, _line(event="end", run_id=settings.run_id, outcomes=counts, exit_status=exit_status))
    return done


def _leave_report(config: pytest.Config, tally: Tally, exit_status: int) -> Iterator[str]:
    """Write the report with the files for CI, and what GitHub Actions takes; the lines to print.

    Raises:
        OSError: A file cannot be written.
    """
    # Few sessions write one.
    from pytest_gsw.history.errors import HistoryError
    from pytest_gsw.reports.build import Once, accepted_in, run_report
    from pytest_gsw.reports.ci import TEXTS
    from pytest_gsw.reports.ci.findings import github
    from pytest_gsw.reports.ci.markdown import markdown
    from pytest_gsw.reports.html import write_report
    from pytest_gsw.reports.run_report import Run, RunReport
    from pytest_gsw.results.rebuild import read_whole_run
    from pytest_gsw.session.alarming import SessionAlarms
    from pytest_gsw.session.nights import history_at

    settings, alarms = config.stash[SETTINGS], config.stash.get(ALARMS, None) or SessionAlarms()
    records, missing = read_whole_run(settings.run_directory, tally.records)
    accepted = accepted_in(settings.baselines, records)
    run = Run(from_here(settings.run_directory), missing, exit_status, alarms.found)

    def made(history: History | None) -> RunReport:
        once = None if history is None else Once(history, alarms.nights)
        report = run_report(records, run, history, accepted, once)
        if settings.report is not None:
            write_report([report], settings.report, history)
        return report

    try:
        with history_at(settings.history) as history:
            report = made(history)
    except HistoryError as error:
        yield f"gsw: the report does without the history: {error}"
        report = made(None)
    if settings.report is not None:
        for text in TEXTS.values():
            write_whole(settings.report / text.file, f"{text.of(report).rstrip()}\n")
        yield f"gsw: the report is {from_here(settings.report / 'index.html')}"
    if _on_github():
        if place := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(place).open("a", encoding="utf-8") as summary:  # others write there, too
                summary.write(f"{markdown(report)}\n")
        yield from github(report).splitlines()


def _on_github() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def _line(**content: Any) -> bytes:
    return f"{json.dumps(content, separators=(',', ':'), allow_nan=False)}\n".encode("ascii")


def _append(config: pytest.Config, line: bytes) -> None:
    if _LIVE not in config.stash:  # no row has begun
        return
    try:
        os.write(config.stash[_LIVE], line)
    except OSError as error:
        path = config.stash[SETTINGS].run_directory / _NAME
        write(config, f"gsw: a line of {path} could not be written: {error.strerror}")
