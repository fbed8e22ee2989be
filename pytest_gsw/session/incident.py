"""The end of a session of many rows: what they say of the cluster together."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.history.model import points_of
from pytest_gsw.history.texts import ClusterTold, cluster_told
from pytest_gsw.history.together import Together
from pytest_gsw.results.incident import incident_of
from pytest_gsw.results.junit_names import INCIDENT, class_of_incident
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.results.record import Record
from pytest_gsw.session.ending import add_incident
from pytest_gsw.session.stash import CLUSTER_TOLD, OTHERS, SETTINGS
from pytest_gsw.session.tally import TALLY


def report_cluster(session: pytest.Session) -> None:
    """Tell pytest and JUnit of an incident, as a test case that has failed, and keep what the summary says."""
    config = session.config
    records, _ = read_run(config.stash[SETTINGS].run_directory, config.stash[TALLY].records)
    if OTHERS in config.stash:
        config.stash[CLUSTER_TOLD] = quoted(_told(config.stash[OTHERS].together, records), os.environ)
    told = config.stash.setdefault(CLUSTER_TOLD, ClusterTold())
    incident = quoted(incident_of(records), os.environ)
    if incident is None:
        return
    text, name = incident.text(told.since), incident.node_id
    report = pytest.TestReport(name, (name, None, name), {}, "failed", text, "call")
    report.gsw_junit = (class_of_incident(incident.cluster), INCIDENT, 0.0, incident.fact)  # type: ignore[attr-defined]
    session.testscollected += 1  # or pytest counts beyond 100 %
    config.hook.pytest_runtest_logreport(report=report)
    add_incident(config, incident, told.since)
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _told(together: Together, records: Sequence[Record]) -> ClusterTold:
    tonight = {record.row.id: points[0].point for record in records if (points := points_of(record))}
    return cluster_told(together.with_tonight(tonight))
