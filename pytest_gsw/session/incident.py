"""The end of a session of many rows: the failure of the whole cluster, where there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import day
from pytest_gsw.history.model import points_of
from pytest_gsw.history.texts import changes_text
from pytest_gsw.history.together import Together
from pytest_gsw.results.incident import incident_of
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.results.record import Record
from pytest_gsw.session.stash import OTHERS, SETTINGS
from pytest_gsw.session.tally import TALLY


def report_incident(session: pytest.Session) -> None:
    """Tell pytest and JUnit of an incident, as a test case that has failed."""
    config = session.config
    records, _ = read_run(config.stash[SETTINGS].run_directory, config.stash[TALLY].records)
    incident = incident_of(records)
    if incident is None:
        return
    others = config.stash.get(OTHERS, None)  # the session that has the screen of pytest-xdist's workers has none
    since = "" if others is None else since_text(others.together, records)
    incident, since = quoted((incident, since), os.environ)
    text, name = incident.text(since), incident.node_id
    session.testscollected += 1  # it is one case more, which pytest's progress counts
    report = pytest.TestReport(name, (name, None, name), {}, "failed", text, "call")
    config.hook.pytest_runtest_logreport(report=report)
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def since_text(together: Together, records: Sequence[Record]) -> str:
    """Since when the cluster is slower, and what changed then; empty where its nights do not say."""
    tonight = {record.row.id: points[0].point for record in records if (points := points_of(record))}
    pasts = {row: past.with_tonight([tonight[row]]) if row in tonight else past for row, past in together.pasts.items()}
    whole = Together(pasts)
    first = whole.since()
    if first is None:
        return ""
    changed = changes_text(whole.changed(first))
    return f", since {day(first.time_s)}" + (f"; changed: {changed}" if changed else "")
