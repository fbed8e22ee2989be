"""The decision on one row in one run, from its first job to the last that it needs: one pure function.

A loss beyond the tolerance never passes: beyond the limit of the noise it is a regression, within it inconclusive.

A first job within the tolerance is the only one. A slower one is followed by more, one at a time, until the row is
decided: the median of all its jobs is within the tolerance again, no further job could change the outcome, or all have
run. No job is ever left out: a row cannot be repeated until it is green.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.stats import noise as noises
from pytest_gsw.stats.noise import Noise


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
_ROUNDING = 1e-12


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
    #: The median of all jobs, seconds.
    median_s: float
    #: Loss of throughput of that median against the reference, as a fraction; below zero it is a gain.
    loss: float
    #: The loss beyond which it is a regression: the tolerance, or more if noise alone exceeds that.
    limit: float
    #: The gain beyond which it is an improvement, as a fraction.
    allowed_gain: float
    #: Jobs to run before the row can be decided; 0 if it is decided.
    more: int


def decide(
    times_s: Sequence[float],
    reference_s: float,
    tolerance: float,
    noise: Noise = noises.PRIOR,
    *,
    first: int = 1,
    confirm: int = 0,
    rows: int = 1,
) -> Decision:
    """Decide a row from all its jobs of this run, in any order, or return how many more it needs.

    Args:
        times_s: The step time of each job so far, seconds.
        reference_s: The reference step time, seconds.
        tolerance: Accepted loss (and gain) of throughput, as a fraction.
        noise: Noise between jobs.
        first: Jobs that run in any case.
        confirm: Most jobs that follow if the first are beyond the screen.
        rows: Number of rows judged together, this one included.

    Raises:
        ValueError: A time or the tolerance is not finite and above zero, there is no job, or ``first`` or ``confirm``
            is no such number.
    """
    _check(times_s, reference_s, first, confirm)
    jobs, most = len(times_s), max(first + confirm, len(times_s))
    median_s = statistics.median(times_s)
    ratio = reference_s / median_s
    now, final = noises.limit(tolerance, noise, jobs, rows), noises.limit(tolerance, noise, most, rows)
    gain = noises.gain_limit(tolerance, noise, jobs)

    def decision(limit: float, more: int) -> Decision:
        if is_below(ratio, limit):
            outcome = Outcome.REGRESSED
        elif is_below(ratio, tolerance):
            outcome = Outcome.INCONCLUSIVE
        else:
            outcome = Outcome.IMPROVED if is_above(ratio, gain) else Outcome.PASSED
        return Decision(outcome, median_s, 1 - ratio, limit, gain, more)

    if jobs < first:
        return decision(now, first - jobs)
    if jobs == most:
        return decision(final, 0)
    if not is_below(ratio, noises.screen(tolerance, noise, jobs)):
        return decision(now, 0)
    slow = sum(is_below(reference_s / time_s, tolerance) for time_s in times_s)
    lost = sum(is_below(reference_s / time_s, final) for time_s in times_s)
    # If more than half of all possible jobs are on one side of a bound, so is their median, whatever the rest takes: it
    # is one of these, or between two of them.
    settled = 2 * lost > most or (2 * slow > most and 2 * (jobs - lost) > most)
    return decision(final, 0 if settled else 1)


def is_known(
    times_s: Sequence[float], reference_s: float, tolerance: float, noise: Noise, before_s: Sequence[float]
) -> bool:
    """True if a loss equals that of the row's previous failed run: more jobs would add nothing.

    It exceeds the noise of so few jobs, and differs from the previous loss by no more than noise.

    Args:
        times_s: The step time of each job so far, seconds.
        reference_s: The reference step time, seconds.
        tolerance: Accepted loss of throughput, as a fraction.
        noise: Noise between jobs, from runs of the row itself.
        before_s: The step time of each job of the previous run, seconds; empty if the row did not fail.
    """
    if not before_s or not noise.jobs:
        return False
    median_s, jobs = statistics.median(times_s), len(times_s)
    apart = abs(math.log(median_s / statistics.median(before_s)))
    allowed = noises.K * noises.ratio_sd(noise, jobs, len(before_s))
    return is_below(reference_s / median_s, noises.limit(tolerance, noise, jobs)) and apart <= allowed


def is_below(ratio: float, allowed_loss: float) -> bool:
    """True if throughput, as a ratio to its reference, is lower than a loss (a fraction) allows."""
    return ratio < (1 - allowed_loss) * (1 - _ROUNDING)


def is_above(ratio: float, allowed_gain: float) -> bool:
    """True if throughput, as a ratio to its reference, is higher than a gain (a fraction) allows."""
    return ratio > (1 + allowed_gain) * (1 + _ROUNDING)


def _check(times_s: Sequence[float], reference_s: float, first: int, confirm: int) -> None:
    if not times_s:
        raise ValueError("a row without a job cannot be decided")
    for time_s in (*times_s, reference_s):
        if not math.isfinite(time_s) or time_s <= 0:
            raise ValueError(f"a job cannot take {time_s} seconds a step")
    if first < 1 or confirm < 0:
        raise ValueError(f"{first} jobs and {confirm} more are no plan")
