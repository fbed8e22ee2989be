"""The nights of a cluster's rows together: by how much each was slower for all, since when, and what changed then."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pytest_gsw.history.model import Point, night_of
from pytest_gsw.history.past import ABOUT, Past, changes_at, first_to_last
from pytest_gsw.performance.drift import NEWEST, Drift, drift
from pytest_gsw.performance.noise import REFERENCE_JOBS
from pytest_gsw.performance.together import Before, Tonight, level_of
from pytest_gsw.results.run_id import begin_of


@dataclass(frozen=True)
class ClusterNight:
    """One night of a cluster: what its rows ran first."""

    #: The run, or the day of imports.
    name: str
    #: When its first job ended, seconds since the epoch.
    time_s: float
    #: By row, its first job.
    points: Mapping[str, Point]

    @property
    def begin_s(self) -> float:
        """When it began."""
        return begin_of(self.name, self.time_s)


@dataclass(frozen=True)
class ClusterDrifting:
    """That the newest nights of a cluster are slower than its first ones for its rows together."""

    drift: Drift
    #: The first night that is not like the first ones.
    since: ClusterNight
    #: By name, what the environment of most rows was before that night, or one that it may be as well, and is since.
    changes: Mapping[str, tuple[str, str]]
    #: How many rows the newest night had.
    rows: int


@dataclass(frozen=True)
class Beside:
    """What the rows of a cluster together say to each of them."""

    together: Together
    #: What they say of a night that is not known to them yet, by its name.
    tonight: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def taken(self) -> Mapping[str, float]:
        """By the name of each night, what is taken from a row before it is asked whether it drifts."""
        tonight = {name: self.together.before.taken_tonight(effect) for name, effect in self.tonight.items()}
        return {**self.together.taken, **tonight}


@dataclass(frozen=True)
class Together:
    """The nights of the rows of one cluster, by the past of each row."""

    pasts: Mapping[str, Past]

    @cached_property
    def nights(self) -> tuple[ClusterNight, ...]:
        """The nights that count for some row, the oldest first."""
        found: dict[str, dict[str, Point]] = {}
        for row, past in self.pasts.items():
            for point in past.counted:
                found.setdefault(night_of(point), {}).setdefault(row, point)
        nights = (
            ClusterNight(name, min(one.time_s for one in points.values()), points) for name, points in found.items()
        )
        return tuple(sorted(nights, key=lambda night: (night.time_s, night.name)))

    @cached_property
    def before(self) -> Before:
        """What these nights have in common."""
        levels = {row: level_of([one.judged_s for one in past.reference]) for row, past in self.pasts.items()}
        seconds = [{row: point.judged_s for row, point in night.points.items()} for night in self.nights]
        slow = [{row for row, point in night.points.items() if point.is_too_slow} for night in self.nights]
        return Before(seconds, {row: level for row, level in levels.items() if level is not None}, slow)

    def tonight(self, first_s: Mapping[str, float], missing: int = 0) -> Tonight:
        """A night that is not among these.

        Args:
            first_s: The seconds of the first job of each row whose first job has ended.
            missing: How many rows with a level have a first job that may still be measured.
        """
        levels = self.before.levels
        over = {row: math.log(seconds) - levels[row] for row, seconds in first_s.items() if row in levels}
        return Tonight(self.before, over, missing)

    def with_tonight(self, points: Mapping[str, Point]) -> Together:
        """The same with a night that is not among these, by the first job of each row."""
        return Together(
            {row: past.with_tonight([points[row]]) if row in points else past for row, past in self.pasts.items()}
        )

    def until(self, time_s: float, run_id: str) -> Together:
        """The nights up to a time, without a run that is told by itself."""
        return Together({row: past.without(run_id, time_s) for row, past in self.pasts.items()})

    def since(self) -> ClusterNight | None:
        """The first of the newest nights all of which were incidents, ``None`` where the last one was none."""
        first = None
        for number in reversed(range(len(self.nights))):
            effect = self.before.effect(number)
            if effect is not None and effect.is_incident:
                first = self.nights[number]
            elif effect is not None:
                break  # a night of few rows says nothing
        return first

    @property
    def knows_drift(self) -> bool:
        """Whether there are enough nights to ask whether the newest are slower than the first."""
        return len(self.before.effects) >= REFERENCE_JOBS + NEWEST

    @cached_property
    def drifting(self) -> ClusterDrifting | None:
        """Whether the newest nights are slower than the first for all rows, since when, and what changed then."""
        numbers = list(self.before.effects)
        ratios = [math.exp(self.before.effects[number]) for number in numbers]
        found = drift(ratios)
        if found is None:
            return None
        about = numbers[max(0, found.first_suspect - ABOUT) : found.first_suspect + ABOUT + 1]
        changes = self.changed(*(self.nights[number] for number in about))
        newest = self.nights[numbers[-1]]
        return ClusterDrifting(found, self.nights[numbers[found.first_suspect]], changes, len(newest.points))

    def changed(self, *nights: ClusterNight) -> Mapping[str, tuple[str, str]]:
        """What of image and environment changed in nights under most of their rows, as it was and is since."""
        return first_to_last(map(self._changed_at, nights))

    def _changed_at(self, night: ClusterNight) -> Mapping[str, tuple[str, str]]:
        rows = [(self.pasts[row].counted, point) for row, point in night.points.items()]
        return _of_most([changes_at(points, points.index(point)) for points, point in rows], len(rows))

    @cached_property
    def taken(self) -> Mapping[str, float]:
        """By the name of each night, what is taken from a row before it is asked whether it drifts."""
        return {self.nights[number].name: one for number, one in self.before.taken.items()}


def _of_most(changes: Iterable[Mapping[str, tuple[str, str]]], rows: int) -> dict[str, tuple[str, str]]:
    seen = Counter((name, change) for each in changes for name, change in each.items() if name != "nodes")
    return {name: change for (name, change), count in seen.items() if 2 * count > rows}
