"""The decision on one row in one run, from its first job to the last that it needs: one pure function.

A loss beyond the tolerance never passes: beyond the limit of the noise it is a regression, within it inconclusive.

A first job within the screen is the only one, unless the newest runs together are beyond theirs. A slower one is
followed by more, one at a time, until the row is decided: the median of all its jobs is within the screen again, no
further job could change the outcome, or all have run. No job is ever left out: a row cannot be repeated until it is
green.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.stats import noise as noises
from pytest_gsw.stats.noise import Noise
from pytest_gsw.tables.metrics import Direction


@dataclass(frozen=True)
class Repeat:
    """One more job of a row, although its last one can be measured."""

    #: Reason in a few words: ``throughput -10.8 %, to be confirmed (1 of 2)``.
    why: str
    #: Nodes to avoid if possible.
    avoiding: tuple[str, ...] = ()


@dataclass(frozen=True)
class Undecided:
    """The decision on one more job depends on other rows' jobs that still run."""


@dataclass(frozen=True)
class Done:
    """A row has no further job."""


#: A run exactly on a limit is within it; rounding of decimal numbers to binary fractions is below this.
ROUNDING = 1e-12


class Outcome(enum.Enum):
    """The result of comparing a measured run with its document."""

    PASSED = "passed"
    IMPROVED = "improved"
    REGRESSED = "regressed"
    #: The measurement does not decide between the others.
    INCONCLUSIVE = "inconclusive"


#: Of several outcomes of a row, the first counts.
WORST_FIRST = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.IMPROVED, Outcome.PASSED)


@dataclass(frozen=True)
class Decision:
    """The decision on a row after its jobs of this run."""

    #: Outcome from the jobs so far; it counts when no more are needed.
    outcome: Outcome
    #: The median of all jobs.
    median: float
    #: Loss of speed of that median against the reference, as a fraction; below zero it is a gain.
    loss: float
    #: The loss beyond which it is a regression: the tolerance, or more if noise alone exceeds that.
    limit: float
    #: The gain beyond which it is an improvement, as a fraction.
    allowed_gain: float
    #: The loss of the first jobs beyond which more follow.
    screen: float
    #: Jobs to run before the row can be decided; 0 if it is decided.
    more: int
    #: True if its loss is part of an incident of the cluster.
    is_part: bool = False


def decide(
    jobs: Sequence[float],
    reference: float,
    tolerance: float,
    noise: Noise = noises.PRIOR,
    *,
    first: int = 1,
    confirm: int = 0,
    rows: int = 1,
    direction: Direction = Direction.LOWER_IS_BETTER,
) -> Decision:
    """Decide a row from all its jobs of this run, in any order, or return how many more it needs.

    Args:
        jobs: The figure of each job so far, in its metric's unit.
        reference: The reference, in the same unit.
        tolerance: Accepted loss (and gain) of speed, as a fraction.
        noise: Noise between jobs.
        first: Jobs that run in any case.
        confirm: Most jobs that follow if the first are beyond the screen.
        rows: Number of rows judged together, this one included.
        direction: The better direction of the figure.

    Raises:
        ValueError: A figure or the tolerance is not finite and above zero, there is no job, or ``first`` or ``confirm``
            is no such number.
    """
    _check(jobs, reference, first, confirm)
    count, most = len(jobs), max(first + confirm, len(jobs))
    median = statistics.median(jobs)
    speed = direction.speed(median, reference)
    now, final = noises.limit(tolerance, noise, count, rows), noises.limit(tolerance, noise, most, rows)
    gain, level = noises.gain_limit(tolerance, noise, count), noise.level
    usual = None if level is None else direction.speed(level.usual, reference)
    of_first = noises.screen(tolerance, noise, first, usual)
    screen = of_first if count == first else noises.screen(tolerance, noise, count, usual)

    def decision(limit: float, more: int) -> Decision:
        if is_below(speed, limit):
            outcome = Outcome.REGRESSED
        elif is_below(speed, tolerance):
            outcome = Outcome.INCONCLUSIVE
        else:
            outcome = Outcome.IMPROVED if is_above(speed, gain) else Outcome.PASSED
        return Decision(outcome, median, 1 - speed, limit, gain, of_first, more)

    if count < first:
        return decision(now, first - count)
    if count == most:
        return decision(final, 0)
    if not is_below(speed, screen):
        if level is None or not level.newest or count > first:
            return decision(now, 0)
        newest = [*level.newest, median]
        of_newest = noises.screen(tolerance, noise, len(newest), usual, noises.NEWEST_SCREEN)
        return decision(now, int(is_below(direction.speed(statistics.median(newest), reference), of_newest)))
    slow = sum(is_below(direction.speed(job, reference), tolerance) for job in jobs)
    lost = sum(is_below(direction.speed(job, reference), final) for job in jobs)
    # If more than half of all possible jobs are on one side of a bound, so is their median, whatever the rest takes: it
    # is one of these, or between two of them.
    is_slow, is_fast = 2 * slow > most, 2 * (count - slow) > most
    settled = 2 * lost > most or is_fast or (is_slow and 2 * (count - lost) > most)
    return decision(final, 0 if settled else 1)


def is_known(
    jobs: Sequence[float],
    reference: float,
    tolerance: float,
    noise: Noise,
    before: Sequence[float],
    direction: Direction = Direction.LOWER_IS_BETTER,
) -> bool:
    """True if a loss equals that of the row's previous failed run: more jobs would add nothing.

    It exceeds the noise of so few jobs, and differs from the previous loss by no more than noise.

    Args:
        jobs: The figure of each job so far, in its metric's unit.
        reference: The reference, in the same unit.
        tolerance: Accepted loss of speed, as a fraction.
        noise: Noise between jobs, from runs of the row itself.
        before: The figure of each job of the previous run; empty if the row did not fail.
        direction: The better direction of the figure.
    """
    if not before or not noise.jobs:
        return False
    median, count = statistics.median(jobs), len(jobs)
    apart = abs(math.log(median / statistics.median(before)))
    allowed = noises.K * noises.ratio_sd(noise, count, len(before))
    is_slow = is_below(direction.speed(median, reference), noises.limit(tolerance, noise, count))
    return is_slow and apart <= allowed


def is_below(ratio: float, allowed_loss: float) -> bool:
    """True if speed, as a ratio to its reference, is lower than a loss (a fraction) allows."""
    return ratio < (1 - allowed_loss) * (1 - ROUNDING)


def is_above(ratio: float, allowed_gain: float) -> bool:
    """True if speed, as a ratio to its reference, is higher than a gain (a fraction) allows."""
    return ratio > (1 + allowed_gain) * (1 + ROUNDING)


def _check(jobs: Sequence[float], reference: float, first: int, confirm: int) -> None:
    if not jobs:
        raise ValueError("a row without a job cannot be decided")
    noises.logarithms([*jobs, reference])
    if first < 1 or confirm < 0:
        raise ValueError(f"{first} jobs and {confirm} more are no plan")
