"""What a row's history says, in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_gsw.common.words import counted, minute, percent
from pytest_gsw.history.drifting import Drifting
from pytest_gsw.history.past import Change
from pytest_gsw.history.together import ClusterDrifting, ClusterNight, Together


def drift_text(found: Drifting) -> str:
    """That a row drifts, since when, and what changed in that night, in one line."""
    job = f" (job {found.since.job_id} of run {found.since.run_id})"
    return _drift_text(", beside the other rows," if found.is_beside else "", found, job)


def cluster_drift_text(found: ClusterDrifting) -> str:
    """That a cluster drifts, for all of its rows together, since when, and what changed then, in one line."""
    return _drift_text(f", of {counted(found.rows, 'row')} together,", found)


def _drift_text(of_whom: str, found: Drifting | ClusterDrifting, job: str = "") -> str:
    change = percent(1 / (1 + found.drift.shift) - 1)
    nights = f"throughput of the newest runs{of_whom} is {change} against the first ones"
    fact = f"{nights}, since about {minute(found.since.begin_s)}{job}"
    return fact + (f"; what changed then: {changes_text(found.changes)}" if found.changes else "")


@dataclass(frozen=True)
class ClusterTold:
    """What the nights of a cluster say of its rows together, in words."""

    #: Since when it has been slower than usual every night, and what changed then; empty where it is not.
    since: str = ""
    #: That it drifts, empty where it does not; ``None`` where its nights are too few to tell.
    drift: str | None = None


def cluster_told(together: Together) -> ClusterTold:
    """What the nights of a cluster say, of which the newest is the one that is told."""
    if together.before.noise is None:
        return ClusterTold()  # too few nights to say anything
    first, drifting = together.since(), together.drifting
    since = _since_text(first, {} if first is None else together.changed(first))
    if not together.knows_drift:
        return ClusterTold(since)
    return ClusterTold(since, "" if drifting is None else cluster_drift_text(drifting))


def _since_text(since: ClusterNight | None, changes: Mapping[str, tuple[str, str]]) -> str:
    """Since when an incident lasts, what changed: ``, since 2026-11-20 22:04; changed: driver 550.54 -> 560.28``."""
    if since is None:
        return ""
    return f", since {minute(since.begin_s)}" + (f"; changed: {changes_text(changes)}" if changes else "")


def changes_text(changes: Mapping[str, tuple[str, str]]) -> str:
    """What of the environment changed: ``nccl 2.21.5 -> 2.23.4, driver 550.54 -> 560.28``."""
    return ", ".join(f"{name} {before} -> {now}" for name, (before, now) in changes.items())


def change_text(change: Change) -> str:
    """What changed, when, and how the nights since compare with those before, in one line."""
    nights = f"{counted(change.nights_since, 'run')} since, {change.nights_before} before"
    interval = f"{percent(change.low - 1)} to {percent(change.high - 1)}"
    named = changes_text(change.named)
    return f"{minute(change.since.begin_s)} {named}: throughput {percent(change.ratio - 1)} ({interval}; {nights})"
