"""What the newest runs of a row were judged by: a cluster accepts figures, and documents change."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace

from pytest_gsw.history.errors import HistoryAwayError, HistoryError
from pytest_gsw.history.model import Point, cluster_of
from pytest_gsw.history.store import History
from pytest_gsw.performance.verdict import Outcome, compare
from pytest_gsw.reports.rows import Row
from pytest_gsw.results.record import Record

#: The newest runs of a row that its page lists.
LISTED_RUNS = 14

#: Outcomes that follow from the figure and the limit alone.
_TELLING = frozenset({Outcome.PASSED.value, Outcome.IMPROVED.value, Outcome.REGRESSED.value})


def held_today(row: Row) -> tuple[float | None, str]:
    """The seconds that the row is held against, and what they are: the same that its verdict is of."""
    judged = row.record.judged_metric.key
    for held, name in (
        (row.record.figures.accepted, "the accepted"),
        (row.record.figures.documented, "the documented"),
    ):
        if value := held.get(judged):
            return value, name
    return None, ""


def held_then(row: Row, night: Point) -> float | None:
    """The seconds that a run of the row was judged by; ``None`` where they are not known, and were not today's."""
    known = row.held.get(night.run_id)
    if known is not None or (night.run_id != row.record.run.id and _is_unlike(row, night)):
        return known
    return held_today(row)[0]


def with_held(rows: Iterable[Row], history: History) -> list[Row]:
    """Rows that know what their newest runs were judged by, where today's figure does not give all their verdicts.

    Records are read of such rows alone: it takes longer than all else that a page needs.

    Raises:
        HistoryAwayError: The history did not answer.
    """
    listed = list(rows)
    wanted: dict[str, set[str]] = {}
    for row in listed:
        newest = row.measured[-LISTED_RUNS:]
        if any(_is_unlike(row, night) for night in newest):
            for night in newest:
                wanted.setdefault(night.run_id, set()).add(row.record.row.id)
    held: dict[tuple[str, str], dict[str, float]] = {}
    for run_id, of_run in wanted.items():
        for record in _records(history, run_id, of_run):
            if record.judged is not None and 0 < record.judged.reference_s < math.inf:
                held.setdefault((record.row.id, cluster_of(record)), {})[run_id] = record.judged.reference_s
    return [replace(row, held=held.get((row.record.row.id, cluster_of(row.record)), {})) for row in listed]


def _is_unlike(row: Row, night: Point) -> bool:
    """Whether what a run came to is not what today's figure and tolerance give."""
    held_s, _ = held_today(row)
    if held_s is None or night.outcome not in _TELLING:
        return False
    return compare(night.judged_s, held_s, row.record.row.tolerance).value != night.outcome


def _records(history: History, run_id: str, rows: Collection[str]) -> tuple[Record, ...]:
    try:
        return history.records(run_id, rows)
    except HistoryAwayError:
        raise
    except HistoryError:  # a later release wrote one of them
        return ()
