"""Changes of image, software and variables between the runs of a row, and their effects."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from pytest_gsw.history.model import Point
from pytest_gsw.results.record import ran_with
from pytest_gsw.stats.noise import Noise, ratio_sd

DEVIATIONS = statistics.NormalDist().inv_cdf(0.975)


#: Most runs before and since a change that are compared: older runs have less bearing on it.
COMPARED = 10


@dataclass(frozen=True)
class EnvironmentChange:
    """The runs of a row before and since a change of its environment."""

    #: The first run with it.
    since: Point
    #: The values before and since, by name.
    named: Mapping[str, tuple[str, str]]
    #: Speed since over that before, and its interval of 95 % for normal noise.
    ratio: float
    low: float
    high: float
    runs_before: int
    runs_since: int

    @property
    def is_beyond_noise(self) -> bool:
        """True if the interval excludes no effect."""
        return not self.low <= 1 <= self.high


def environment_changes(runs: Sequence[Point], noise: Noise) -> tuple[EnvironmentChange, ...]:
    """Changes of image and environment between runs of a row with their effects, the oldest first."""
    changed_runs = [(number, named) for number in range(1, len(runs)) if (named := changes_at(runs, number))]
    if not changed_runs:
        return ()
    facts = ran_with(*runs)
    begins = [0, *(number for number, _ in changed_runs)]
    ends = [*(number for number, _ in changed_runs[1:]), len(runs)]
    changes = []
    for begin, (number, named), end in zip(begins, changed_runs, ends, strict=False):
        before = _with(facts, range(number - 1, begin - 1, -1), {name: old for name, (old, _) in named.items()})
        since = _with(facts, range(number, end), {name: new for name, (_, new) in named.items()})
        changes.append(_change([runs[run] for run in before], [runs[run] for run in since], named, noise))
    return tuple(changes)


def _with(facts: Sequence[Mapping[str, str]], runs: Iterable[int], values: Mapping[str, str]) -> list[int]:
    """The first of runs (indices), as long as they had these values; an unknown value may be the same."""
    had = takewhile(lambda run: all((facts[run].get(name) or old) == old for name, old in values.items()), runs)
    return list(islice(had, COMPARED))


def _change(
    before: Sequence[Point], after: Sequence[Point], named: Mapping[str, tuple[str, str]], noise: Noise
) -> EnvironmentChange:
    medians = [statistics.median(point.judged for point in runs) for runs in (after, before)]
    ratio = after[0].metric.direction.speed(*medians)
    wide = DEVIATIONS * ratio_sd(noise, len(before), len(after))
    low, high = ratio * math.exp(-wide), ratio * math.exp(wide)
    return EnvironmentChange(after[0], named, ratio, low, high, len(before), len(after))


#: An event of the environment counts only if the value was the same in this many runs before.
_SAME_BEFORE = 3


def changes_at(points: Sequence[Point], run: int) -> dict[str, tuple[str, str]]:
    """Changes of the environment in a run (an index), by name: the values before and since.

    A change counts if the value was the same for some runs before, or if it reverts such a change: values that differ
    in every run, as nodes do, are no evidence. An unknown value may be the same as before.
    """
    runs = points[max(0, run - 2 * _SAME_BEFORE + 1) : run + 1]
    facts = ran_with(*runs)
    by_name = {name: [of_run.get(name, "") for of_run in facts] for name in facts[-1]}
    changes = {name: _changed(values) or _reverted(values) for name, values in by_name.items()}
    return {name: change for name, change in changes.items() if change is not None}


def _changed(values: Sequence[str]) -> tuple[str, str] | None:
    """The value that was the same for some runs, and the newest one, if they differ."""
    *before, now = values[-_SAME_BEFORE - 1 :]
    known = len(set(before)) == 1 and "" not in {before[0], now}
    return (before[0], now) if known and now != before[0] else None


def _reverted(values: Sequence[str]) -> tuple[str, str] | None:
    """The value before the newest one, and the newest, if it reverts a change."""
    *before, now = values
    runs = len(list(takewhile(lambda value: value == before[-1], reversed(before))))
    return (before[-1], now) if runs and _changed(before[: len(before) - runs + 1]) == (now, before[-1]) else None
