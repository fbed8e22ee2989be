"""The steps of one run become one number."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.tables.model import Figures
from pytest_gsw.tables.statistic import Statistic


@dataclass(frozen=True)
class TimedStep:
    """One step's number, as the log counts it (``None``: the log has no numbers), and its seconds."""

    index: int | None
    seconds: float


@dataclass(frozen=True)
class Measurement:
    """What was measured of one run: the judged number, and the series it comes from."""

    #: The judged seconds: of one training step, or of saving one checkpoint.
    judged_s: float
    #: The statistic that gave :attr:`judged_s`.
    statistic: str
    steps: int
    first_s: float
    last_s: float
    median_s: float
    #: 90th percentile, nearest rank.
    p90_s: float
    #: What follows from the judged step time (all ``None`` but one for a checkpoint row).
    figures: Figures
    #: Every step's seconds, in order.
    series_s: tuple[float, ...]


def select(statistic: Statistic, steps: Sequence[TimedStep]) -> tuple[float, ...]:
    """The seconds that a statistic is taken over.

    Raises:
        ValueError: The steps do not fill the statistic's window.
    """
    if not steps:
        raise ValueError("there are no steps")
    if statistic.kind == "last":
        return (steps[-1].seconds,)
    first, last = statistic.first, statistic.last
    chosen = [step.seconds for position, step in enumerate(steps) if _inside(step, position, len(steps), first, last)]
    if not chosen:
        raise ValueError(f"no step lies in the window of {statistic}")
    if first is not None and len(steps) < -first:
        raise ValueError(f"there are {len(steps)} steps, fewer than the window of {statistic}")
    if last is not None and last >= 0 and (_number(steps[-1], len(steps) - 1)) < last:
        raise ValueError(f"the steps end at {_number(steps[-1], len(steps) - 1)}, before the window of {statistic}")
    return tuple(chosen)


def apply(statistic: Statistic, steps: Sequence[TimedStep]) -> float:
    """The statistic of these steps, in seconds.

    Raises:
        ValueError: The steps do not fill the statistic's window.
    """
    chosen = select(statistic, steps)
    return statistics.median(chosen) if statistic.kind == "median" else statistics.fmean(chosen)


def p90(values: Sequence[float]) -> float:
    """The 90th percentile by nearest rank: a value that was really measured."""
    return sorted(values)[max(0, math.ceil(0.9 * len(values)) - 1)]


def _number(step: TimedStep, position: int) -> int:
    return position if step.index is None else step.index


def _inside(step: TimedStep, position: int, count: int, first: int | None, last: int | None) -> bool:
    """Whether a step lies in a window; negative bounds count from the last step, which is -1."""

    def at_least(bound: int) -> bool:
        return position - count >= bound if bound < 0 else _number(step, position) >= bound

    def at_most(bound: int) -> bool:
        return position - count <= bound if bound < 0 else _number(step, position) <= bound

    return (first is None or at_least(first)) and (last is None or at_most(last))
