"""Goodput of a training over all its attempts, its time between failures, and drift inside it.

All of it follows from the scheduler's clock and the steps in the logs; what a program reports of itself is not used.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby, pairwise

from pytest_gsw.stats.drift import change_in, normal_scores

#: Causes of an attempt's end before its planned one. The last is a restart inside a job, by the program's own launcher.
INFRASTRUCTURE, PROGRAM, SESSION, IN_JOB = "infrastructure", "program", "session", "in job"

#: The probability beyond each end of the interval of the mean time between failures.
_TAIL = 0.05

#: The share of the time by which steps may exceed it: their seconds are rounded, and clocks differ.
_BEYOND = 0.02

#: Drift is looked for among medians of so many seconds of steps; so many of them are an hour.
_WINDOW_S, _HOUR = 300.0, 12
#: Logarithm of the likelihood ratio above which a run has drifted, and the least change between its first and last
#: hour (tests/unit/stats/test_goodput.py simulates both).
_BELIEVED, _LEAST_DRIFT = 6.0, 0.015


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """The steps of one line in a log: one, or several if a framework logs only every Nth."""

    #: The number of the last one.
    number: int
    #: Seconds of each.
    seconds: float
    count: int = 1
    #: When the line was written, seconds since the epoch; ``None`` if the log does not state it.
    ended_s: float | None = None

    @property
    def first(self) -> int:
        """The number of the first one."""
        return self.number - self.count + 1


@dataclass(frozen=True)
class TrainingAttempt:
    """One job of a training that lasts longer than a job, or longer than a job survives."""

    #: The scheduler's clock, seconds since the epoch.
    start_s: float
    end_s: float
    #: Why it ended before its planned end; empty if it did not.
    cause: str = ""
    #: In the log's order; a number that does not increase is a restart inside the job.
    steps: Sequence[TrainingStep] = ()
    #: Seconds of its checkpoint saves between steps, as far as the log states them.
    checkpoint_s: float = 0.0

    def __post_init__(self) -> None:
        """Seconds that are no number would compare as none."""
        run_s = self.end_s - self.start_s
        seconds = (self.start_s, run_s, self.checkpoint_s, *(step.seconds for step in self.steps))
        if not all(0 <= each < math.inf for each in seconds):
            raise ValueError("an attempt's times are not finite, or below zero")


@dataclass(frozen=True)
class Endurance:
    """The use of the time since a training's first start."""

    attempts: int
    #: Steps that count in the end, and those that were done in vain: done again after a restart, or left behind by it.
    steps: int
    steps_lost: int
    #: All seconds, of which the next five are the parts.
    wall_s: float
    #: Steps that count in the end.
    productive_s: float
    #: From the start of each job to its first step; 0 if the logs have no clocks.
    start_s: float
    checkpoint_s: float
    #: Steps done in vain, time between jobs, from the last step of a failed job to its end, of restarts inside a job,
    #: and jobs without a step.
    lost_s: float
    #: Further time of jobs: evaluation, data, the end of sound jobs; and starts and ends if the logs have no clocks.
    other_s: float
    #: Ends before the planned one, by cause.
    causes: Mapping[str, int] = field(default_factory=dict)
    #: Running time of jobs over their failures, and the ends of its interval; ``None`` for no end.
    mtbf_s: float | None = None
    mtbf_low_s: float = 0.0
    mtbf_high_s: float | None = None
    #: The change of a step's time from the first to the last hour of steps, if it is more than noise and 1.5 %.
    drift: float | None = None
    #: Seconds by which the steps in the logs exceed the running time of their jobs; they count for nothing.
    beyond_s: float = 0.0

    @property
    def is_plausible(self) -> bool:
        """False if the logs have more of steps than their jobs ran: they are others', or their clock is wrong."""
        return self.beyond_s <= _BEYOND * self.wall_s

    @property
    def goodput(self) -> float:
        """Productive time over all time since the first start."""
        return self.productive_s / self.wall_s if self.wall_s else 0.0

    @property
    def restarts(self) -> int:
        """Jobs after the first, and restarts inside jobs."""
        return self.attempts - 1 + self.causes.get(IN_JOB, 0)


def endurance(attempts: Sequence[TrainingAttempt]) -> Endurance:
    """The use of the time by a training's attempts, in the order in which they ran.

    Raises:
        ValueError: There is none.
    """
    if not attempts:
        raise ValueError("a training without attempts has no goodput")
    kept = _kept(attempts)
    parts = zip(*map(_seconds, attempts, kept), strict=True)
    good_s, start_s, checkpoint_s, lost_s, other_s = map(math.fsum, parts)
    lines = list(zip(chain(*(attempt.steps for attempt in attempts)), chain(*kept), strict=True))
    steps, done = sum(count for _, count in lines), sum(step.count for step, _ in lines)
    drift = _drift([step for step, count in lines if count])
    running_s = math.fsum(attempt.end_s - attempt.start_s for attempt in attempts)
    wall_s = attempts[-1].end_s - attempts[0].start_s
    lost_s += wall_s - running_s
    restarts = [IN_JOB for attempt in attempts for _ in _restarts(attempt)]
    causes = Counter([*(attempt.cause for attempt in attempts if attempt.cause), *restarts])
    mtbf = mtbf_with_interval(running_s, causes.total() - causes[SESSION])
    seconds = (wall_s, good_s, start_s, checkpoint_s, lost_s, other_s)
    beyond_s = max(0.0, math.fsum(step.count * step.seconds for step, _ in lines) - running_s)
    return Endurance(len(attempts), steps, done - steps, *seconds, causes, *mtbf, drift, beyond_s)


def _kept(attempts: Sequence[TrainingAttempt]) -> list[list[int]]:
    """The number of steps in each line that count: a later start at or before a step has undone it.

    A start from the first step of all, after a job's planned end, undoes nothing: it is a further run.
    """
    first = min((step.first for attempt in attempts for step in attempt.steps), default=0)
    kept, limit = list[list[int]](), math.inf
    for attempt in reversed(attempts):
        if not attempt.cause and limit == first:
            limit = math.inf
        counts = list[int]()
        for step in reversed(attempt.steps):
            counts.append(int(min(max(limit - step.first, 0), step.count)))
            limit = min(limit, step.first)
        kept.append(counts[::-1])
    return kept[::-1]


def _restarts(attempt: TrainingAttempt) -> list[tuple[TrainingStep, TrainingStep]]:
    """The lines before and after each restart inside a job."""
    return [(step, later) for step, later in pairwise(attempt.steps) if later.number <= step.number]


def _seconds(attempt: TrainingAttempt, kept: Sequence[int]) -> tuple[float, float, float, float, float]:
    """The seconds of an attempt as the parts of :class:`Endurance`; all of them are what its clock has."""
    left_s, steps = attempt.end_s - attempt.start_s, attempt.steps
    if not steps:
        return 0.0, 0.0, 0.0, left_s, 0.0
    gaps_s = math.fsum(_gap_s(step.ended_s, later) for step, later in _restarts(attempt))
    if attempt.cause and steps[-1].ended_s is not None:
        gaps_s += attempt.end_s - steps[-1].ended_s
    steps_s = math.fsum(step.count * step.seconds for step in steps)
    spent_s = list[float]()
    for wanted_s in (_gap_s(attempt.start_s, steps[0]), gaps_s, steps_s, attempt.checkpoint_s):
        spent_s.append(min(max(wanted_s, 0.0), left_s))
        left_s -= spent_s[-1]
    start_s, lost_s, done_s, checkpoint_s = spent_s
    kept_s = math.fsum(count * step.seconds for step, count in zip(steps, kept, strict=True))
    productive_s = done_s * kept_s / steps_s if steps_s else 0.0
    return productive_s, start_s, checkpoint_s, lost_s + done_s - productive_s, left_s


def _gap_s(before_s: float | None, step: TrainingStep) -> float:
    """The time from a moment to the begin of a line's steps; 0 if unknown."""
    return 0.0 if before_s is None or step.ended_s is None else step.ended_s - step.count * step.seconds - before_s


# -- Time between failures ----------------------------------------------------------------------------


def mtbf_with_interval(running_s: float, failures: int) -> tuple[float | None, float, float | None]:
    """The mean time between failures, and its exact interval of 90 %, of a Poisson process watched for a given time.

    Without a failure it has no upper end, and the lower one is that of the same interval: the time over three.
    Source: F. Garwood, Fiducial limits for the Poisson distribution, Biometrika 28 (1936), p. 437.
    """
    low_s = running_s / _gamma_quantile(failures + 1, 1 - _TAIL)
    if not failures:
        return None, low_s, None
    return running_s / failures, low_s, running_s / _gamma_quantile(failures, _TAIL)


def _gamma_quantile(shape: int, p: float) -> float:
    """The quantile of a gamma distribution of scale 1: half of that of chi-square with twice as many degrees.

    For a whole shape, the incomplete gamma function is a sum over a Poisson distribution.
    """
    low, high = 0.0, shape + 20 * math.sqrt(shape) + 20
    for _ in range(100):
        middle = (low + high) / 2
        beyond = math.fsum(math.exp(k * math.log(middle) - middle - math.lgamma(k + 1)) for k in range(shape))
        low, high = (middle, high) if beyond > 1 - p else (low, middle)
    return low


# -- Drift inside a run -------------------------------------------------------------------------------


def _drift(steps: Sequence[TrainingStep]) -> float | None:
    """The change from the first to the last hour of steps if the run has become slower.

    The evidence rests on all windows (:func:`~pytest_gsw.stats.drift.change_in`), by their ranks: noise is that of the
    run itself, windows may depend on each other, and an odd one counts once.
    """
    ended_s = accumulate(step.count * step.seconds for step in steps)
    by_window = groupby(zip(ended_s, steps, strict=True), key=lambda timed: timed[0] // _WINDOW_S)
    windows = [statistics.median([step.seconds for _, step in timed]) for _, timed in by_window][:-1]
    if len(windows) < 2 * _HOUR or not (first_s := statistics.median(windows[:_HOUR])):
        return None
    change = statistics.median(windows[-_HOUR:]) / first_s - 1
    return change if change >= _LEAST_DRIFT and change_in(normal_scores(windows), 1).evidence > _BELIEVED else None
