"""The end of a session of many rows: the failure of the whole cluster, where there is one."""

from __future__ import annotations

import os

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.results.incident import Incident, incident_of
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.session.stash import SETTINGS
from pytest_gsw.session.tally import TALLY


def report_incident(session: pytest.Session) -> None:
    """Tell pytest and JUnit of an incident, as a test case that has failed."""
    config = session.config
    tally = config.stash[TALLY]
    records, _ = read_run(config.stash[SETTINGS].run_directory, tally.records)
    incident = incident_of(records)
    if incident is None:
        return
    incident = quoted(incident, os.environ)
    name = f"cluster::{incident.cluster}"
    report = pytest.TestReport(name, (name, None, name), {}, "failed", _text(incident), "call")
    config.hook.pytest_runtest_logreport(report=report)
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _text(incident: Incident) -> str:
    lines = [incident.fact]
    if incident.parts:
        lines += ["", "rows that are part of it, and inconclusive for that:", *(f"  {one}" for one in incident.parts)]
    return "\n".join(lines)
