"""The alarms of a session, and of one of its rows."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pytest_gsw.common.redact import redact
from pytest_gsw.history.alarms import Acknowledgement, Alarm, Kind, State, alarms, drifts, regressions
from pytest_gsw.history.comparison import advice_line, line_of
from pytest_gsw.history.model import ExperimentKey, points_of
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.reports.reported_row import ReportedRow, since_facts, since_of
from pytest_gsw.results.record import Record


@dataclass(frozen=True)
class SessionAlarms:
    """The alarms of a session's rows, and of its cluster's nodes."""

    found: tuple[Alarm, ...] = ()
    #: Why the history could not be read; empty if it was.
    problem: str = ""

    def lines(self, slow: Collection[str] = ()) -> tuple[str, ...]:
        """The lines for the screen; none if the rows' own lines have all of it.

        ``slow`` are nodes with a line of their own: their alarms are listed if acknowledged or ended.
        """
        if self.problem:
            return (f"not known: {self.problem}",)
        of_nodes = [alarm for alarm in self.found if alarm.period.kind is Kind.NODE and alarm.period.subject in slow]
        listed = [alarm for alarm in self.found if alarm not in of_nodes or not alarm.is_active or alarm.acknowledged]
        # The line of a row has all that is known of a regression of this run.
        if all(alarm.state is State.NEW and alarm.period.kind is Kind.REGRESSION for alarm in listed):
            return ()
        return tuple(line for alarm in listed for line in (line_of(alarm), advice_line(alarm)) if line)

    def of_nodes(self) -> Mapping[str, str]:
        """The ids of the nodes' alarms, by node."""
        return {alarm.period.subject: alarm.id for alarm in self.found if alarm.period.kind is Kind.NODE}


def row_alarms(
    record: Record, past: RowHistory, known: Sequence[Acknowledgement]
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """The active alarms of a row, and since when it is too slow as the report has it; without secrets.

    ``past`` are the runs of the row before this one.
    """
    key = ExperimentKey(record.row.row_id, record.run.cluster, record.row.experiment)
    whole = past.including_run(points_of(record))
    active = alarms((*regressions(key, whole), *drifts(key, whole)), known, time.time())
    text = "; ".join(line_of(alarm) for alarm in active if alarm.is_active)
    return redact((text or None, since_facts(since_of(ReportedRow(record, record.row.id, whole)))), os.environ)
