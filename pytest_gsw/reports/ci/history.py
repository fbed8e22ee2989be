"""Since when rows are too slow, by the nights before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_gsw.history.model import Point, record_time_s, series_key
from pytest_gsw.history.store import History
from pytest_gsw.reports.ci.night import is_slow, slow_since
from pytest_gsw.results.record import Record

#: Nights before this one in which a row is looked up: more than a year of them.
_NIGHTS = 400


def since_of(history: History, records: Iterable[Record]) -> Mapping[str, str]:
    """Since when rows that are too slow are so, by their node ids, as far as the history tells it.

    Raises:
        HistoryError: It does not answer.
    """
    slow = [record for record in records if is_slow(record)]
    series = [(record, key) for record in slow if (key := series_key(record)) is not None]
    if not series:
        return {}
    points = history.points_of((key for _, key in series), _NIGHTS)
    told = {record.row.node_id: slow_since(_nights_before(record, points[key])) for record, key in series}
    return {node_id: since for node_id, since in told.items() if since}


def _nights_before(record: Record, points: Iterable[Point]) -> list[tuple[float, str]]:
    """When each earlier run was, and the row's outcome in it; the oldest first."""
    now_s = record_time_s(record)
    by_run = {
        point.run_id: (point.time_s, point.outcome)
        for point in points
        if point.run_id != record.run.id and point.time_s <= now_s
    }
    return list(by_run.values())
