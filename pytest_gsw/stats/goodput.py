"""Goodput of a training over all its attempts, its time between failures, and drift inside it.

All of it follows from the scheduler's clock and the steps in the logs; what a program reports of itself is not used.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pytest_gsw.stats.drift import change_in, normal_scores

#: Causes of an attempt's end before its planned one. The last is a restart inside a job, by the program's own launcher.
INFRASTRUCTURE, PROGRAM, SESSION, IN_JOB = "infrastructure", "program", "session", "in job"

#: Confidence of the interval of the mean time between failures.
CONFIDENCE = 0.9

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
        seconds = (self.start_s, self.checkpoint_s, *(step.seconds for step in self.steps))
        if not (self.end_s - self.start_s >= 0 and all(0 <= each < math.inf for each in seconds)):
            raise ValueError("an attempt's times are not finite, or below zero")


@dataclass(frozen=True)
class Endurance:
    """The use of the time since a training's first start; the parts add up to :attr:`wall_s`."""

    attempts: int
    #: Steps that count in the end, and those that were done in vain: done again after a restart, or left behind by it.
    steps: int
    steps_lost: int
    wall_s: float
    #: Steps that count in the end.
    productive_s: float
    #: From the start of a job to its first step; ``None`` if the logs have no clocks.
    start_s: float | None
    checkpoint_s: float
    #: Steps done in vain, time between jobs, from the last step of a failed job to its end, of a restart inside a job,
    #: and jobs without a step.
    lost_s: float
    #: Further time of jobs: evaluation, data, the end of sound jobs; and starts and ends if the logs have no clocks.
    other_s: float
    #: Ends before the planned one, by cause.
    causes: Mapping[str, int] = field(default_factory=dict)
    #: Running time over failures of infrastructure and program, and the ends of its interval; ``None`` for no end.
    mtbf_s: float | None = None
    mtbf_low_s: float = 0.0
    mtbf_high_s: float | None = None
    #: Median seconds of a step in the first and the last hour of steps; ``None`` if there are no two hours.
    first_hour_s: float | None = None
    last_hour_s: float | None = None
    #: The change between them if it is more than the noise of the run; else ``None``.
    drift: float | None = None

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
    segments = [_segments(attempt.steps) for attempt in attempts]
    kept = _kept(attempts, segments)
    parts = [_parts(*each) for each in zip(attempts, segments, kept, strict=True)]
    idle_s = math.fsum(later.start_s - attempt.end_s for attempt, later in pairwise(attempts))
    starts_s = [part.start_s for part in parts if part.start_s is not None]
    causes = Counter(attempt.cause for attempt in attempts if attempt.cause)
    causes[IN_JOB] += sum(max(0, len(each) - 1) for each in segments)
    running_s = math.fsum(attempt.end_s - attempt.start_s for attempt in attempts)
    failures = causes.total() - causes[SESSION]
    low_s, high_s = mtbf_interval(running_s, failures)
    lines = [step for each in segments for segment in each for step in segment]
    counts = [count for each in kept for segment in each for count in segment]
    first_hour_s, last_hour_s, drift = _drift([step for step, count in zip(lines, counts, strict=True) if count])
    return Endurance(
        attempts=len(attempts),
        steps=sum(counts),
        steps_lost=sum(step.count for step in lines) - sum(counts),
        wall_s=attempts[-1].end_s - attempts[0].start_s,
        productive_s=math.fsum(part.productive_s for part in parts),
        start_s=math.fsum(starts_s) if starts_s else None,
        checkpoint_s=math.fsum(part.checkpoint_s for part in parts),
        lost_s=idle_s + math.fsum(part.lost_s for part in parts),
        other_s=math.fsum(part.other_s for part in parts),
        causes={cause: count for cause, count in causes.items() if count},
        mtbf_s=running_s / failures if failures else None,
        mtbf_low_s=low_s,
        mtbf_high_s=high_s,
        first_hour_s=first_hour_s,
        last_hour_s=last_hour_s,
        drift=drift,
    )


#: The lines of a job between restarts inside it.
_Segments = Sequence[Sequence[TrainingStep]]


def _segments(steps: Sequence[TrainingStep]) -> _Segments:
    segments: list[list[TrainingStep]] = []
    for step in steps:
        if not segments or step.number <= segments[-1][-1].number:
            segments.append([])
        segments[-1].append(step)
    return segments


def _kept(attempts: Sequence[TrainingAttempt], segments: Sequence[_Segments]) -> list[list[list[int]]]:
    """The number of steps in each line that count: a later segment that began at or before a step has undone it.

    One that begins at the first step of all after a job's planned end undoes nothing: it is a further run.
    """
    first = min((each[0][0].first for each in segments if each), default=0)
    kept: list[list[list[int]]] = []
    limit = math.inf
    for attempt, of_attempt in zip(reversed(attempts), reversed(segments), strict=True):
        if not attempt.cause and limit == first:
            limit = math.inf
        kept.append([])
        for segment in reversed(of_attempt):
            kept[-1].append([int(min(max(limit - step.first, 0), step.count)) for step in segment])
            limit = min(limit, segment[0].first)
        kept[-1].reverse()
    return kept[::-1]


@dataclass(frozen=True)
class _Parts:
    """The use of one attempt's time."""

    productive_s: float = 0.0
    start_s: float | None = None
    checkpoint_s: float = 0.0
    lost_s: float = 0.0
    other_s: float = 0.0


def _parts(attempt: TrainingAttempt, segments: _Segments, kept: Sequence[Sequence[int]]) -> _Parts:
    """The use of an attempt's time; steps and saves never take more than the clock leaves them."""
    left_s = attempt.end_s - attempt.start_s
    if not segments:
        return _Parts(lost_s=left_s)
    start_s, lost_s = None, 0.0
    times = [(each[0].ended_s, each[-1].ended_s) for each in segments]
    if all(first is not None and last is not None for first, last in times):
        start_s, *gaps_s = _gaps(attempt, segments)
        lost_s = math.fsum(gaps_s)
        left_s -= start_s + lost_s
    steps_s = math.fsum(step.count * step.seconds for segment in segments for step in segment)
    productive_s = math.fsum(
        count * step.seconds
        for segment, counts in zip(segments, kept, strict=True)
        for step, count in zip(segment, counts, strict=True)
    )
    share = min(1.0, left_s / steps_s) if steps_s else 1.0
    left_s -= share * steps_s
    checkpoint_s = min(attempt.checkpoint_s, max(0.0, left_s))
    lost_s += share * (steps_s - productive_s)
    return _Parts(share * productive_s, start_s, checkpoint_s, lost_s, left_s - checkpoint_s)


def _gaps(attempt: TrainingAttempt, segments: _Segments) -> Iterator[float]:
    """Yield the seconds before each segment, and those after the last one of a failed job; all within the attempt."""
    before_s = attempt.start_s
    for segment in segments:
        head, tail = segment[0], segment[-1]
        began_s = min(max((head.ended_s or 0.0) - head.count * head.seconds, before_s), attempt.end_s)
        yield began_s - before_s
        before_s = min(max(tail.ended_s or 0.0, began_s), attempt.end_s)
    if attempt.cause:
        yield attempt.end_s - before_s


# -- Time between failures ----------------------------------------------------------------------------


def mtbf_interval(running_s: float, failures: int, confidence: float = CONFIDENCE) -> tuple[float, float | None]:
    """The exact interval of the mean time between failures, of a Poisson process that was watched for a given time.

    Without a failure it has no upper end, and the lower one is that of the same interval: the time over three.
    Source: F. Garwood, Fiducial limits for the Poisson distribution, Biometrika 28 (1936), p. 437.
    """
    tail = (1 - confidence) / 2
    high_s = running_s / _gamma_quantile(failures, tail) if failures else None
    return running_s / _gamma_quantile(failures + 1, 1 - tail), high_s


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


def _drift(steps: Sequence[TrainingStep]) -> tuple[float | None, float | None, float | None]:
    """Median seconds of the first and the last hour of steps, and the change if the run has become slower.

    The evidence rests on all windows (:func:`~pytest_gsw.stats.drift.change_in`), by their ranks: noise is that of the
    run itself, windows may depend on each other, and an odd one counts once.
    """
    windows = list(_windows(steps))
    if len(windows) < 2 * _HOUR:
        return None, None, None
    first_s, last_s = statistics.median(windows[:_HOUR]), statistics.median(windows[-_HOUR:])
    change = last_s / first_s - 1 if first_s else 0.0
    is_drift = change >= _LEAST_DRIFT and change_in(normal_scores(windows), 1).evidence > _BELIEVED
    return first_s, last_s, change if is_drift else None


def _windows(steps: Sequence[TrainingStep]) -> Iterator[float]:
    """Yield the median seconds of a step in each window."""
    window: list[float] = []
    filled_s = 0.0
    for step in steps:
        window.append(step.seconds)
        filled_s += step.count * step.seconds
        if filled_s >= _WINDOW_S:
            yield statistics.median(window)
            window, filled_s = [], 0.0
