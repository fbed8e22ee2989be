"""What a session leaves: the report and the JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_gsw.common.files import make_directory
from pytest_gsw.results import jsonlines
from pytest_gsw.results.facts import NO_CLUSTER
from pytest_gsw.results.incident import WholeNight
from pytest_gsw.results.record import Record
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.screen import write
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import ALARMS, SETTINGS
from pytest_gsw.session.tally import TALLY

#: The record of a row that has its line in the file of ``--gsw-json``.
_IN_JSON = pytest.StashKey[Record]()


def begin_json(config: pytest.Config, rows: Iterable[BaselineItem]) -> None:
    """With ``--gsw-json``: begin the file anew.

    Raises:
        pytest.UsageError: It cannot be written.
    """
    settings = config.stash[SETTINGS]
    if settings.json is None:
        return
    cluster = settings.cluster.name if settings.cluster else NO_CLUSTER
    line = jsonlines.session_line(settings.run_id, cluster, [item.nodeid for item in rows])
    try:
        make_directory(settings.json.parent)
        jsonlines.begin(settings.json, line)
    except OSError as error:
        raise pytest.UsageError(f"--gsw-json: {settings.json} cannot be written: {error.strerror}") from None


def add_json(item: BaselineItem, record: Record) -> None:
    """With ``--gsw-json``: the line of a row that has been judged, once."""
    path = item.config.stash[SETTINGS].json
    if path is not None and item.stash.get(_IN_JSON, None) is not record:
        item.stash[_IN_JSON] = record
        _append(item.config, path, jsonlines.row_line(record))


def add_incident(config: pytest.Config, found: WholeNight, since: str) -> None:
    """With ``--gsw-json``: the line of an incident."""
    settings = config.stash[SETTINGS]
    if settings.json is not None and settings.json.is_file():
        _append(config, settings.json, jsonlines.incident_line(settings.run_id, found, since))


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
    if settings.json is not None and settings.json.is_file():
        _append(config, settings.json, jsonlines.end_line(settings.run_id, tally.outcomes, exit_status))
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


def _append(config: pytest.Config, path: Path, line: str) -> None:
    try:
        jsonlines.append(path, line)
    except OSError as error:
        write(config, f"gsw: a line of {path} could not be written: {error.strerror}")
