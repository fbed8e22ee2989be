"""What a session leaves: the report and the live file of its run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

import pytest

from pytest_gsw.results import jsonlines
from pytest_gsw.results.facts import NO_CLUSTER
from pytest_gsw.results.incident import WholeNight
from pytest_gsw.results.record import Record
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.screen import write
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import ALARMS, SETTINGS
from pytest_gsw.session.tally import TALLY

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
    config.stash[_LIVE] = descriptor = jsonlines.opened(settings.run_directory)
    config.add_cleanup(partial(os.close, descriptor))
    line = jsonlines.session_line(settings.run_id, cluster, [item.nodeid for item in rows])
    os.write(descriptor, line.encode("ascii"))


def add_row(item: BaselineItem, record: Record) -> None:
    """Write the live file's line of a row that has been judged, once."""
    if item.stash.get(_TOLD, None) is not record:
        item.stash[_TOLD] = record
        _append(item.config, jsonlines.row_line(record))


def add_incident(config: pytest.Config, found: WholeNight, since: str) -> None:
    """Write the live file's line of an incident."""
    _append(config, jsonlines.incident_line(config.stash[SETTINGS].run_id, found, since))


def leave_files(config: pytest.Config, exit_status: int) -> bool:
    """The report, what a CI server takes, and the last JSON line.

    Returns:
        Whether all that was asked for is there.
    """
    settings, tally = config.stash[SETTINGS], config.stash.get(TALLY, None)
    if tally is None or not tally.rows:
        return True
    done = True
    if settings.report is not None or os.environ.get("GITHUB_ACTIONS") == "true":
        done = _leave_report(config, settings, exit_status)
    _append(config, jsonlines.end_line(settings.run_id, tally.outcomes, exit_status))
    return done


def _leave_report(config: pytest.Config, settings: Settings, exit_status: int) -> bool:
    # Few sessions write one.
    from pytest_gsw.session.alarming import SessionAlarms
    from pytest_gsw.session.leaving import leave_report

    alarms = config.stash.get(ALARMS, None) or SessionAlarms()
    try:
        lines = leave_report(settings, exit_status, os.environ, alarms)
    except OSError as error:
        write(config, f"gsw: the report cannot be written: {error.strerror}: {error.filename}")
        return False
    for line in lines:
        write(config, line)
    return True


def _append(config: pytest.Config, line: str) -> None:
    if _LIVE not in config.stash:  # no row has begun
        return
    try:
        os.write(config.stash[_LIVE], line.encode("ascii"))
    except OSError as error:
        path = config.stash[SETTINGS].run_directory / jsonlines.NAME
        write(config, f"gsw: a line of {path} could not be written: {error.strerror}")
