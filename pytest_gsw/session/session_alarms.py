"""What a session knows of alarms at its end, by the history that its records have gone to."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from pytest_gsw.common.redact import redact
from pytest_gsw.history.alarms import (
    Acknowledgement,
    Alarm,
    Kind,
    State,
    alarms,
    alarms_of_records,
    drifts,
    regressions,
)
from pytest_gsw.history.comparison import ClusterText, advice_line, cluster_text, line_of
from pytest_gsw.history.database import HistoryError
from pytest_gsw.history.model import ExperimentKey, points_of
from pytest_gsw.history.row_history import ClusterSeries, RowHistory, SlowNode
from pytest_gsw.reports.run_report import HistoryCache, Row, accepted_in, since_facts, since_of
from pytest_gsw.results.junit_names import INCIDENT, class_of_incident
from pytest_gsw.results.record import Record
from pytest_gsw.results.summary import incident_of
from pytest_gsw.session.progress import add_incident
from pytest_gsw.session.session_history import history_at
from pytest_gsw.session.settings import CLUSTER_PEERS, CLUSTER_TEXT, Settings
from pytest_gsw.session.terminal import run_records


@dataclass(frozen=True)
class SessionAlarms:
    """The alarms of a session's rows, and of its cluster's nodes: found once, told on the screen and in files."""

    found: tuple[Alarm, ...] = ()
    #: By cluster, the runs that tell them, for what is told beside them.
    series: Mapping[str, ClusterSeries] = field(default_factory=dict)
    #: Why they are not known, where that is so.
    problem: str = ""

    def lines(self, slow: Collection[str] = ()) -> tuple[str, ...]:
        """A line each for the screen; none where the rows say it all.

        ``slow`` are nodes that are told already: of them only what somebody has said, or what became of them, is new.
        """
        if self.problem:
            return (f"not known: {self.problem}",)
        told = [one for one in self.found if one.spell.kind is Kind.NODE and one.spell.subject in slow]
        found = [one for one in self.found if one not in told or not one.stands or one.acknowledged]
        # A row's own line says it all: that it is slow in this run.
        if all(one.state is State.NEW and one.spell.kind is Kind.REGRESSION for one in found):
            return ()
        return tuple(line for one in found for line in (line_of(one), advice_line(one)) if line)

    def of_nodes(self) -> Mapping[str, str]:
        """The ids of alarms by the nodes that they are of."""
        return {one.spell.subject: one.id for one in self.found if one.spell.kind is Kind.NODE}


def session_alarms(
    settings: Settings, records: Iterable[Record], slow_before: Sequence[SlowNode] | None
) -> SessionAlarms:
    """The alarms of a session, without secrets.

    Args:
        settings: The session's.
        records: Its records, which the history has as well.
        slow_before: The nodes that were slow before, where that is known.
    """
    ran = tuple(records)
    try:
        with history_at(settings.history) as history:
            accepted = accepted_in(settings.baselines, ran) or {}
            if history is None:
                return SessionAlarms()
            once = HistoryCache(history)
            found = alarms_of_records(history, ran, accepted, time.time(), slow_before, once.lines)
    except HistoryError as error:
        return SessionAlarms(problem=redact(str(error), os.environ))
    return SessionAlarms(redact(found, os.environ), once.read)


def row_alarms(
    record: Record, past: RowHistory, said: Sequence[Acknowledgement]
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """The alarms of a row that stand, and since when it is too slow as the report has it; without secrets.

    ``past`` are the runs of the row before this one.
    """
    key = ExperimentKey(record.row.id, record.run.cluster, record.row.experiment)
    whole = past.including_run(point.point for point in points_of(record))
    found = alarms((*regressions(key, whole), *drifts(key, whole)), said, time.time())
    text = "; ".join(line_of(one) for one in found if one.stands)
    return redact((text or None, since_facts(since_of(Row(record, record.row.id, whole)))), os.environ)


def report_cluster(session: pytest.Session) -> None:
    """Tell pytest and JUnit of an incident, as a test case that has failed, and keep what the summary says."""
    config = session.config
    records = run_records(config)
    if CLUSTER_PEERS in config.stash:
        current_run = {record.row.id: points[0].point for record in records if (points := points_of(record))}
        together = config.stash[CLUSTER_PEERS].together.including_run(current_run)
        config.stash[CLUSTER_TEXT] = redact(cluster_text(together), os.environ)
    told = config.stash.setdefault(CLUSTER_TEXT, ClusterText())
    incident = redact(incident_of(records), os.environ)
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
