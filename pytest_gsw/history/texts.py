"""What a row's history says, in one line each."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_gsw.common.words import counted, day, percent
from pytest_gsw.history.drifting import Drifting
from pytest_gsw.history.past import Change


def drift_text(found: Drifting) -> str:
    """That a row creeps, since when, and what changed in that night, in one line."""
    since = found.since
    change = percent(1 / (1 + found.drift.shift) - 1)
    slope = found.drift.slope_per_week
    pace = "" if slope is None else f", {percent(1 / (1 + slope) - 1)} a week"
    fact = f"throughput of the newest nights is {change} against the first ones{pace}, since about {day(since.time_s)}"
    job = f"(job {since.job_id} of run {since.run_id})"
    return f"{fact} {job}" + (f"; what changed then: {changes_text(found.changes)}" if found.changes else "")


def changes_text(changes: Mapping[str, tuple[str, str]]) -> str:
    """What of the environment changed: ``nccl 2.21.5 -> 2.23.4, driver 550.54 -> 560.28``."""
    return ", ".join(f"{name} {before or 'unknown'} -> {now or 'unknown'}" for name, (before, now) in changes.items())


def change_text(change: Change) -> str:
    """What changed, when, and how the nights since compare with those before, in one line."""
    nights = f"{counted(change.nights_since, 'night')} since, {change.nights_before} before"
    interval = f"{percent(change.low - 1)} to {percent(change.high - 1)}"
    named = changes_text(change.named)
    return f"{day(change.since.time_s)} {named}: throughput {percent(change.ratio - 1)} ({interval}; {nights})"
