"""Since when a row is what it is tonight, by the nights before."""

from __future__ import annotations

from dataclasses import replace

from pytest_gsw.common.words import minute
from pytest_gsw.history.drifting import ABOUT, changes_within
from pytest_gsw.history.model import record_time_s
from pytest_gsw.history.texts import changes_text
from pytest_gsw.reports.rows import Row, Since
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.run_id import begin_of


def since_line(since: Since | None) -> str:
    """Since when a row is what it is: ``2026-11-18 22:04, 3 runs``; empty where no run before is known."""
    if since is None or (since.nights == 1 and not since.good_run_id):
        return ""
    first = f"{minute(since.time_s)}{'' if since.good_run_id else ' or before'}"
    mixed = f", {since.regressed} of them regressed" if since.regressed else ""
    return f"{'this run' if since.nights == 1 else f'{first}, {since.nights} runs{mixed}'}"


def since_facts(since: Since | None) -> tuple[tuple[str, str], ...]:
    """Since when a row is what it is, and what changed then, each with its name; nothing where that is not known."""
    line = since_line(since)
    if since is None or not line:
        return ()
    return (("since", line), *((("changed", changes_text(since.changes)),) if since.changes else ()))


def since_of(row: Row) -> Since | None:
    """Since when a row is what it is, ``None`` where nobody knows, or where it is well."""
    if row.needs is attention.ERROR:
        return _error_since(row)
    if row.needs in attention.SLOW:
        found = _streak(row, outcomes.SLOW)
        return None if found is None else _mixed(found, row)
    if row.needs is attention.IMPROVED:
        return _streak(row, frozenset({outcomes.IMPROVED.word}))
    if row.needs is attention.DRIFT and row.drifting is not None:
        suspect = row.drifting.since.run_id
        found = _since_night(row, [night.run_id for night in row.nights].index(suspect))
        return replace(found, changes=row.drifting.changes)
    return None


def _streak(row: Row, outcomes: frozenset[str]) -> Since | None:
    nights = row.nights
    if not nights or nights[-1].run_id != row.record.run.id or nights[-1].outcome not in outcomes:
        return None  # a canary's night, or nothing that counts
    first = len(nights) - 1
    while first and nights[first - 1].outcome in outcomes:
        first -= 1
    return _since_night(row, first)


def _mixed(since: Since, row: Row) -> Since:
    """With how many of its nights regressed, where that are not all: alarms count from the first of those."""
    regressed = sum(night.outcome == outcomes.REGRESSED.word for night in row.nights[-since.nights :])
    return since if regressed == since.nights else replace(since, regressed=regressed)


def _since_night(row: Row, first: int) -> Since:
    nights = row.nights
    night = nights[first]
    begin = Since(night.begin_s, night.run_id, night.job_id, len(nights) - first)
    if not first:
        return begin
    before = nights[first - 1]
    return replace(
        begin,
        good_run_id=before.run_id,
        good_time_s=before.begin_s,
        good_s=row.judged[first - 1].judged_s,
        changes=changes_within(nights, first - ABOUT, first),
    )


def _error_since(row: Row) -> Since:
    """Since when a row could not be measured."""
    record, last = row.record, row.record.jobs.last
    found = Since(begin_of(record.run.id, record_time_s(record)), record.run.id, "" if last is None else last.id, 1)
    for night in reversed(row.earlier):
        if night.outcome != outcomes.ERROR.word:
            return replace(found, good_run_id=night.run_id, good_time_s=night.begin_s)
        found = replace(found, time_s=night.begin_s, run_id=night.run_id, job_id="", nights=found.nights + 1)
    return found
