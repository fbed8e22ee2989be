"""The nights of a cluster's rows together: by how much each was slower for all, since when, and what changed then."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_gsw.history.drifting import changes_at
from pytest_gsw.history.model import Point, night_of
from pytest_gsw.history.past import Past
from pytest_gsw.performance.drift import Drift, drift
from pytest_gsw.performance.figures import SECONDS_PER_DAY
from pytest_gsw.performance.together import Before, Effect, Tonight, level_of


@dataclass(frozen=True)
class ClusterNight:
    """One night of a cluster: what its rows ran first."""

    #: The run, or the day of imports.
    name: str
    #: When its first job ended, seconds since the epoch.
    time_s: float
    #: By row, its first job.
    points: Mapping[str, Point]


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
        return Before(seconds, {row: level for row, level in levels.items() if level is not None})

    def tonight(self, first_s: Mapping[str, float], missing: int = 0) -> Tonight:
        """A night that is not among these.

        Args:
            first_s: The seconds of the first job of each row whose first job has ended.
            missing: How many rows with a level have a first job that may still be measured.
        """
        levels = self.before.levels
        over = {row: math.log(seconds) - levels[row] for row, seconds in first_s.items() if row in levels}
        return Tonight(self.before, over, missing)

    def since(self) -> ClusterNight | None:
        """The first of the newest nights all of which were incidents, ``None`` where the last one was none."""
        first = None
        for number in reversed(range(len(self.nights))):
            effect = self.effect(number)
            if effect is not None and effect.is_incident:
                first = self.nights[number]
            elif effect is not None:
                break  # a night of few rows says nothing
        return first

    def effect(self, number: int) -> Effect | None:
        """By how much a night, an index, was slower; ``None`` where its rows, or nights, are too few to tell."""
        seconds = {row: point.judged_s for row, point in self.nights[number].points.items()}
        return self.tonight(seconds).effect()

    def drift(self) -> tuple[Drift, ClusterNight] | None:
        """Whether the newest nights are slower than the first for all rows, and since which one."""
        numbers = list(self.before.effects)
        ratios = [math.exp(self.before.effects[number]) for number in numbers]
        found = drift(ratios, days=[self.nights[number].time_s / SECONDS_PER_DAY for number in numbers])
        return None if found is None else (found, self.nights[numbers[found.first_suspect]])

    def changed(self, night: ClusterNight) -> Mapping[str, tuple[str, str]]:
        """What of image and environment changed in a night under more than half of its rows, as it was and is since."""
        rows = [(self.pasts[row].counted, point) for row, point in night.points.items()]
        return _of_most([changes_at(points, points.index(point)) for points, point in rows], len(rows))


def _of_most(changes: Iterable[Mapping[str, tuple[str, str]]], rows: int) -> dict[str, tuple[str, str]]:
    seen = Counter((name, change) for each in changes for name, change in each.items() if name != "nodes")
    return {name: change for (name, change), count in seen.items() if 2 * count > rows}
