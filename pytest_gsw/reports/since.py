"""Since when a row is what it is tonight, by the nights before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_gsw.common.words import day
from pytest_gsw.history.drifting import changes_at, changes_within
from pytest_gsw.history.errors import HistoryError
from pytest_gsw.history.model import Point, record_time_s
from pytest_gsw.history.store import History
from pytest_gsw.performance.onset import onset
from pytest_gsw.reports.rows import Row, Since
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.record import Record

#: How many earlier runs are looked at for rows that could not be measured: each is read whole.
_EARLIER_RUNS = 14


def since_line(since: Since | None) -> str:
    """Since when a row is what it is: ``2026-11-18, 3 nights``; empty where no night before is known."""
    if since is None or (since.nights == 1 and not since.good_run_id):
        return ""
    first = f"{day(since.time_s)}{'' if since.good_run_id else ' or before'}"
    begun = "" if since.earliest_s is None else f"; it may have begun on {day(since.earliest_s)}"
    return f"{'tonight' if since.nights == 1 else f'{first}, {since.nights} nights'}{begun}"


def since_of(row: Row, sigma: float = 0.0) -> Since | None:
    """Since when a measured row is what it is.

    Args:
        row: The row.
        sigma: The standard deviation of its nights while nothing changes, 0 where that is not known.
    """
    if row.needs in attention.SLOW:
        found = _streak(row.nights, row.record.run.id, outcomes.SLOW)
        return None if found is None else _with_window(found, row.nights, sigma)
    if row.needs is attention.IMPROVED:
        return _streak(row.nights, row.record.run.id, frozenset({outcomes.IMPROVED.word}))
    if row.needs is attention.DRIFT and row.drifting is not None:
        suspect = row.drifting.since.run_id
        found = _since_night(row.nights, [night.run_id for night in row.nights].index(suspect))
        return replace(found, changes=row.drifting.changes)
    return None


def _streak(nights: Sequence[Point], run_id: str, outcomes: frozenset[str]) -> Since | None:
    if not nights or nights[-1].run_id != run_id or nights[-1].outcome not in outcomes:
        return None  # a canary's night, or nothing that counts
    first = len(nights) - 1
    while first and nights[first - 1].outcome in outcomes:
        first -= 1
    return _since_night(nights, first)


def _with_window(since: Since, nights: Sequence[Point], sigma: float) -> Since:
    """With the nights on which a loss may have begun as well: noise hides it on some."""
    seen = len(nights) - since.nights
    earliest = next((night + 1 for night in range(seen - 1, -1, -1) if nights[night].outcome in outcomes.SLOW), 0)
    first, last = onset([math.log(night.judged_s) for night in nights], seen, sigma, earliest)
    changes = changes_within(nights, first, last)
    if first == seen or not first:
        return replace(since, changes=changes)
    known = _since_night(nights, first)
    # What is compared with tonight is a night that it had not begun on.
    return replace(
        since,
        good_run_id=known.good_run_id,
        good_time_s=known.good_time_s,
        good_s=known.good_s,
        changes=changes,
        earliest_s=known.time_s,
    )


def _since_night(nights: Sequence[Point], first: int) -> Since:
    night = nights[first]
    begin = Since(night.time_s, night.run_id, night.job_id, len(nights) - first)
    if not first:
        return begin
    before = nights[first - 1]
    return replace(
        begin,
        good_run_id=before.run_id,
        good_time_s=before.time_s,
        good_s=before.judged_s,
        changes=changes_at(nights, first),
    )


def errors_since(rows: Iterable[Row], history: History | None, run_id: str) -> dict[str, Since]:
    """By page, since when rows could not be measured: as many runs back as it takes, and no more than a few."""
    tonight = {row.record.row.node_id: row for row in rows if row.needs is attention.ERROR}
    found = {
        row.name: Since(record_time_s(row.record), run_id, row.record.jobs.last.id if row.record.jobs.last else "", 1)
        for row in tonight.values()
    }
    if history is None:
        return found
    for records in _earlier_runs(history, run_id, tonight.values()):
        for record in records:
            row = tonight.get(record.row.node_id)
            if row is None:
                continue
            known = found[row.name]
            time_s = record_time_s(record)
            if record.outcome == outcomes.ERROR.word:
                job_id = record.jobs.last.id if record.jobs.last else ""
                found[row.name] = replace(
                    known, time_s=time_s, run_id=record.run.id, job_id=job_id, nights=known.nights + 1
                )
            else:
                found[row.name] = replace(known, good_run_id=record.run.id, good_time_s=time_s)
                del tonight[record.row.node_id]
        if not tonight:
            break
    return found


def _earlier_runs(history: History, run_id: str, rows: Iterable[Row]) -> Iterator[tuple[Record, ...]]:
    """The records of the runs before, the newest first."""
    clusters = {row.record.run.cluster for row in rows}
    before_s = max((record_time_s(row.record) for row in rows), default=0.0)
    if not clusters:
        return
    summaries = [
        one
        for one in history.runs(last=4 * _EARLIER_RUNS)
        if one.cluster in clusters and one.run_id != run_id and one.last_s <= before_s
    ]
    for summary in sorted(summaries, key=lambda one: one.last_s, reverse=True)[:_EARLIER_RUNS]:
        try:
            yield history.records(summary.run_id)
        except HistoryError:
            return  # of a later release; what it says of that night nobody can tell
