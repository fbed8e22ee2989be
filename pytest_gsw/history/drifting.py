"""Which rows drift: their newest nights against the first ones, since when, and what changed in that night."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

from pytest_gsw.history.model import Point
from pytest_gsw.performance.drift import Drift, drift
from pytest_gsw.performance.verdict import UNUSUAL
from pytest_gsw.results import outcomes
from pytest_gsw.results.facts import ran_with
from pytest_gsw.tables.model import Accepted

#: A fact of the environment has changed where it was the same for so many nights before.
_SAME_BEFORE = 3

#: Nights to either side of the first suspect one in which what changed may be the reason: it is seldom the very night.
ABOUT = 5


@dataclass(frozen=True)
class Drifting:
    """That the newest nights of a row differ from its first ones, since when, and what changed then."""

    drift: Drift
    #: The first night that is not like the first ones.
    since: Point
    #: By name, what the environment was before that night, or one that it may be as well, and is since.
    changes: Mapping[str, tuple[str, str]]
    #: Whether that is beside the other rows of the cluster, which may have drifted themselves.
    is_beside: bool = False


def nights_of(points: Sequence[Point]) -> tuple[Point, ...]:
    """The first job of each night, of a row's jobs from the oldest on, without nights that say nothing of the row.

    In those a canary said that the cluster was not in its usual state, or what was measured is not believed.

    Further jobs of a night ran because its first was slow, or share its hour: they say less than a night of their own.
    """
    return first_jobs([point for point in points if point.reason not in UNUSUAL])


def first_jobs(points: Sequence[Point]) -> tuple[Point, ...]:
    """The first job of each night, of a row's jobs from the oldest on."""
    first: dict[str, Point] = {}
    for point in points:
        first.setdefault(point.run_id, point)
    return tuple(first.values())


def as_judged(nights: Sequence[Point], points: Sequence[Point]) -> tuple[Point, ...]:
    """Nights as their runs were judged: of several jobs the median, with the ids and the nodes of all.

    Args:
        nights: The first jobs of nights, see :func:`nights_of`.
        points: All jobs of these nights.
    """
    of_run: dict[str, list[Point]] = {}
    for point in points:
        of_run.setdefault(point.run_id, []).append(point)
    return tuple(_median(night, of_run[night.run_id]) for night in nights)


def _median(night: Point, jobs: Sequence[Point]) -> Point:
    if len(jobs) == 1:
        return night
    return replace(
        night,
        judged_s=statistics.median(job.judged_s for job in jobs),
        job_id=", ".join(job.job_id for job in jobs),
        nodes=", ".join(dict.fromkeys(job.nodes for job in jobs if job.nodes)),
        jobs=len(jobs),
    )


def since(points: Sequence[Point], accepted: Accepted | None) -> tuple[Point, ...]:
    """Of a row's jobs, from the oldest on, those that count: from the accepted ones or their day on, else all."""
    if accepted is None:
        return tuple(points)
    jobs = {job.strip() for job in accepted.job_ids.split(",")}
    made_of = (number for number, point in enumerate(points) if point.job_id in jobs)
    day_s = datetime.fromisoformat(f"{accepted.date}T00:00:00+00:00").timestamp()
    later = (number for number, point in enumerate(points) if point.time_s >= day_s)
    begin = next(made_of, next(later, len(points)))
    # What somebody has accepted is neither too slow nor too good to be true.
    return tuple(
        replace(point, outcome=outcomes.PASSED.word, reason="") if point.job_id in jobs else point
        for point in points[begin:]
    )


def drifting(nights: Sequence[Point], own_s: Sequence[float] | None = None) -> Drifting | None:
    """Whether the newest nights that count are slower than the first, since when, and what changed then.

    Args:
        nights: Those that count.
        own_s: What of the seconds of each is the row's own, where the cluster has a part in them.
    """
    found = drift([night.judged_s for night in nights] if own_s is None else own_s)
    if found is None:
        return None
    changes = changes_within(nights, found.first_suspect - ABOUT, found.first_suspect + ABOUT)
    return Drifting(found, nights[found.first_suspect], changes, own_s is not None)


def changes_within(points: Sequence[Point], first: int, last: int) -> dict[str, tuple[str, str]]:
    """What changed from a night to a later one, both included where they are there, as before the first and since."""
    return first_to_last(changes_at(points, night) for night in range(max(0, first), min(last + 1, len(points))))


def first_to_last(found: Iterable[Mapping[str, tuple[str, str]]]) -> dict[str, tuple[str, str]]:
    """Changes of one night after the other, as before the first one and since; what was taken back is none."""
    changes: dict[str, tuple[str, str]] = {}
    for named in found:
        for name, (before, now) in named.items():
            changes[name] = (changes[name][0] if name in changes else before, now)
    return {name: (before, now) for name, (before, now) in changes.items() if before != now}


def changes_at(points: Sequence[Point], night: int) -> dict[str, tuple[str, str]]:
    """What of the environment changed in a night (an index), by name, as it was before and is since.

    Only what had been the same for some nights, and what is taken back before it has: what changes every night, as
    nodes do, says nothing. What one of the nights does not know may be what it was.
    """
    nights = points[max(0, night - 2 * _SAME_BEFORE + 1) : night + 1]
    facts = ran_with(*nights)
    by_name = {name: [of_night.get(name, "") for of_night in facts] for name in facts[-1]}
    found = {name: _changed(values) or _taken_back(values) for name, values in by_name.items()}
    found["nodes"] = _changed([point.nodes for point in nights])  # nobody takes them back: the scheduler chooses them
    return {name: change for name, change in found.items() if change is not None}


def _changed(values: Sequence[str]) -> tuple[str, str] | None:
    """The value that had been the same for some nights, and the newest one, where they differ."""
    *before, now = values[-_SAME_BEFORE - 1 :]
    known = len(set(before)) == 1 and "" not in {before[0], now}
    return (before[0], now) if known and now != before[0] else None


def _taken_back(values: Sequence[str]) -> tuple[str, str] | None:
    """The value before the newest one, and the newest, where that is what it had been changed from."""
    *before, now = values
    nights = len(list(takewhile(lambda value: value == before[-1], reversed(before))))
    return (before[-1], now) if nights and _changed(before[: len(before) - nights + 1]) == (now, before[-1]) else None
