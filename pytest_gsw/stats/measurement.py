"""The judged number of a run, from its steps."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_gsw.tables.model import Figures, Statistic

# -- The steady state of one run: its steps after warm-up, and their evenness ----------------------


#: The run has settled at the first of so many consecutive steps this near to the median of its second half. Of 572
#: published runs of Megatron-LM half had settled at step 2, and nine of ten at step 11.
_CONSECUTIVE = 3
_NEARNESS = 0.10
#: Steps this near to the median are no slow ones, whatever the tolerance.
_EVEN = 0.01
#: Fewest steps of a steady state, unless the whole run has no more.
MIN_STEPS = 10
#: A step that takes over this multiple of the median is a spike: a checkpoint, an evaluation, a hiccup.
SPIKE = 1.2


@dataclass(frozen=True)
class Timing:
    """The times of a job's steps; without its series, of a figure alone."""

    statistic: str = ""
    #: Steps read, and the series' first and last, in seconds.
    steps: int = 0
    first_s: float | None = None
    last_s: float | None = None
    #: Of the steady steps, after warm-up: median, mean and 90th percentile in seconds, the share of them that took
    #: over 1.2 times the median, how many they are, and how many steps were before them.
    median_s: float | None = None
    mean_s: float | None = None
    p90_s: float | None = None
    spike_fraction: float | None = None
    steady_steps: int = 0
    warm_up_steps: int = 0
    #: Every step's seconds, in order.
    series_s: tuple[float, ...] = ()


def timing_of(series_s: Sequence[float], statistic: str = "") -> Timing:
    """The times of a job's steps; if they never settle, the last ones are steady, as few as make a steady state.

    If most steps are slower than those, all are.

    Raises:
        ValueError: There are no steps.
    """
    if not series_s:
        raise ValueError("there are no steps")
    first = _warm_up_steps(series_s)
    settled = series_s[first:]
    median_s = statistics.median(settled)
    return Timing(
        statistic,
        len(series_s),
        series_s[0],
        series_s[-1],
        median_s,
        mean_s=math.fsum([seconds / len(settled) for seconds in settled]),  # a float's sum may overflow
        p90_s=p90(settled),
        spike_fraction=sum([seconds > SPIKE * median_s for seconds in settled]) / len(settled),
        steady_steps=len(settled),
        warm_up_steps=first,
        series_s=tuple(series_s),
    )


def p90(values: Sequence[float]) -> float:
    """The 90th percentile by nearest rank: a value that was really measured."""
    return sorted(values)[max(0, math.ceil(0.9 * len(values)) - 1)]


def slowest_third_s(series_s: Sequence[float], interval: int) -> float | None:
    """The time that a third of the steps take at least; ``None`` for a run that is too short for a warm-up.

    A step counts as slow as its neighbours: single slow ones, as of checkpoints, are no part of it.

    Args:
        series_s: The seconds of the steps, or of lines.
        interval: Steps in a line.
    """
    if len(series_s) * interval < MIN_STEPS or len(series_s) < _CONSECUTIVE + 1:
        return None
    count = len(series_s) // 3 if len(series_s) >= MIN_STEPS else math.ceil(len(series_s) / 3)
    ordered = sorted(series_s)
    if ordered[-count] <= (1 + _EVEN) * ordered[len(ordered) // 2]:
        return ordered[-count]  # as in most runs
    padded = (series_s[0], *series_s, series_s[-1])
    return sorted([sorted(padded[at : at + 3])[1] for at in range(len(series_s))])[-count]


def _warm_up_steps(series_s: Sequence[float]) -> int:
    """Number of steps before the steady state."""
    last_start = max(0, len(series_s) - MIN_STEPS)
    usual_s = statistics.median(series_s[len(series_s) // 2 :])
    near = [abs(seconds - usual_s) <= _NEARNESS * usual_s for seconds in series_s]
    first = next((start for start in range(last_start) if all(near[start : start + _CONSECUTIVE])), last_start)
    # No warm-up is most of a run.
    is_most = statistics.median_low(series_s) > (1 + _NEARNESS) * statistics.median(series_s[first:])
    return 0 if is_most else first


#: Share of a statistic's window that the log must have: lines are lost if processes write over each other.
_FILLED_SHARE = 0.9
#: A window of no more steps must be complete, as in the recipes' own tools for ``mean[35:44]``.
_WHOLE_STEPS = 10


@dataclass(frozen=True, slots=True)
class TimedStep:
    """One step's number, as the log counts it (``None`` without numbers), and its seconds."""

    index: int | None
    seconds: float
    #: False for a step that its optimizer skipped: it is counted, and never measured.
    trained: bool = True


@dataclass(frozen=True)
class Measurement:
    """The measurement of one run: the judged number, and its series."""

    #: The judged number, in the unit of the row's metric.
    judged: float
    #: The figures that follow from it: all of a step time, else itself.
    figures: Figures
    #: Its steps, and the statistic that gave :attr:`judged`.
    timing: Timing
    #: The judged number of each of the row's jobs, in order; :attr:`judged` is their median, and the series is that
    #: of the last one. A single run has one entry.
    jobs: tuple[float, ...] = ()
    #: The median of the steady steps of each of several jobs; for a single one :attr:`steady_s` has it. Empty for a
    #: figure.
    steadies_s: tuple[float, ...] = ()
    #: FLOP/s of the (last) job's own calibration, if the MFU is relative to it and not to the accelerator's peak.
    calibration_flops: float | None = None
    #: If ranks print their own steps: each rank's median over the measured steps, seconds, by the log's rank label.
    #: Empty if one rank prints; "slowest of 4" and the like if no label distinguishes them.
    ranks_s: Mapping[str, float] = field(default_factory=dict)
    #: The time that a third of the measured steps take at least, or, of a row by its last step, of all steps;
    #: the median of the jobs. ``None`` for few steps, for a figure, and for a mean, which has the slow steps in it.
    third_s: float | None = None
    #: Values of the site's metrics that the row documents: by key, one for each job, in order.
    metrics: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    #: The loss of the (last) job's last step that prints one; ``None`` if none does.
    loss: float | None = None
    #: Why the number decides nothing, although the run has no fault; of the first job that has a reason.
    doubt: str | None = None
    #: Unusual settings of the (last) run, and what its log leaves open, in a few words each.
    remarks: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        """The number of its steps."""
        return self.timing.steps

    @property
    def steady_s(self) -> float | None:
        """The median of the steady steps of the (last) job; ``None`` for a figure alone."""
        return self.timing.median_s


def log_interval(numbers: Sequence[int | None], first_index: int | None = None) -> int:
    """The number of steps in each line: 10 for a Megatron log with ``--log-interval 10``.

    More than 1 only if the numbers are unambiguous: a log that lost most of its lines has gaps, too. ``first_index`` is
    as for :func:`selected`.
    """
    known = [number for number in numbers if number is not None]
    if len(known) < max(3, len(numbers)):
        return 1
    if first_index is not None and known[0] == first_index and len(known) > 3:
        # Megatron (core 0.16 and newer) and torchtitan print the first step whatever the interval.
        rest = log_interval(known[1:], first_index)
        if rest > 1:
            return rest
    gaps = [later - earlier for earlier, later in itertools.pairwise(known)]
    interval = min(gaps)
    if interval < 1 or math.gcd(*gaps) != interval or 2 * gaps.count(interval) <= len(gaps):
        return 1
    fits = first_index is None or known[0] == first_index + interval - 1
    return interval if fits else 1


def select(statistic: Statistic, steps: Sequence[TimedStep], *, first_index: int | None = None) -> tuple[float, ...]:
    """The seconds that a statistic is taken over; the arguments and errors of :func:`selected`."""
    return tuple(steps[position].seconds for position in selected(statistic, steps, first_index=first_index))


def selected(statistic: Statistic, steps: Sequence[TimedStep], *, first_index: int | None = None) -> tuple[int, ...]:
    """The positions of the steps that a statistic is taken over.

    ``first_index`` is the number that the log's format gives to a run's first step; ``None`` if unknown.

    Raises:
        ValueError: The steps do not fill the statistic's window.
    """
    trained = [position for position, step in enumerate(steps) if step.trained]
    if not trained:
        raise ValueError("there are no steps")
    if statistic.kind == "last":
        return (trained[-1],)
    first, last = statistic.first, statistic.last
    chosen = [position for position in trained if _inside(steps[position], position, len(steps), first, last)]
    if not chosen:
        raise ValueError(f"no step lies in the window of {statistic}")
    if first is not None and len(steps) < -first:
        raise ValueError(f"there are {len(steps)} steps, fewer than the window of {statistic}")
    if last is not None and last >= 0 and (_number(steps[-1], len(steps) - 1)) < last:
        raise ValueError(f"the steps end at {_number(steps[-1], len(steps) - 1)}, before the window of {statistic}")
    if first is not None and last is not None and first >= 0 and last >= 0:
        _check_filled(statistic, range(first, last + 1), steps, first_index)
    return tuple(chosen)


def _check_filled(statistic: Statistic, window: range, steps: Sequence[TimedStep], first_index: int | None) -> None:
    numbers = {step.index for step in steps if step.index is not None and step.trained}
    if not numbers:
        return
    interval = log_interval([step.index for step in steps], first_index)
    filled = 0
    for number in sorted(numbers):
        line = range(number - interval + 1, number + 1)
        inside = len(range(max(line.start, window.start), min(line.stop, window.stop)))
        if 0 < inside < interval:
            is_active = f"the line of step {number} covers steps {line[0]} to {number}"
            raise ValueError(f"{is_active}, not all in the window of {statistic}")
        filled += inside
    share = 1.0 if len(window) <= _WHOLE_STEPS else _FILLED_SHARE
    if filled < share * len(window):
        raise ValueError(f"the window has {filled} of {len(window)} steps")


def apply(statistic: Statistic, steps: Sequence[TimedStep], *, first_index: int | None = None) -> float:
    """The statistic of these steps, in seconds; the arguments and errors of :func:`selected`."""
    chosen = select(statistic, steps, first_index=first_index)
    return statistics.median(chosen) if statistic.kind == "median" else statistics.fmean(chosen)


def ranks_s(printed: Sequence[Sequence[tuple[str | None, float]]]) -> dict[str, float]:
    """The median seconds of each rank over several steps, by its label; empty if one rank prints.

    Ranks without labels print in any order, and no line identifies its rank: the place in each step's sorted times is
    used instead. The first and the last of many lie far apart by chance, neighbours do not. The widest gap between two
    neighbours is kept, as "slowest of 4" and "fastest of 4", and "middle of 4" for the larger part. The argument has,
    for each step, each rank's label (``None`` without one) and seconds.
    """
    by_label: dict[str, list[float]] = {}
    by_place: list[list[float]] = []
    widest = max((len(step_lines) for step_lines in printed), default=0)
    for step_lines in printed:
        labels = {label for label, _ in step_lines}
        if None not in labels and len(labels) == len(step_lines):  # torchrun's labels count anew on each node
            for label, seconds in step_lines:
                by_label.setdefault(str(label), []).append(seconds)
        elif len(step_lines) == widest > 1:
            by_place.append(sorted(seconds for _, seconds in step_lines))
    ranks = {label: statistics.median(seconds) for label, seconds in by_label.items()}
    if by_place:
        ranks |= _widest_gap([statistics.median(place) for place in zip(*by_place, strict=True)])
    return ranks if len(ranks) > 1 else {}


def _widest_gap(places_s: Sequence[float]) -> dict[str, float]:
    """The seconds on both sides of the widest gap between neighbours, and on the side with more of them."""
    count = len(places_s)
    behind = max(range(1, count), key=lambda place: places_s[place] / (places_s[place - 1] or math.inf))
    fast_s, slow_s = places_s[behind - 1], places_s[behind]
    middle = {f"middle of {count}": fast_s if 2 * behind >= count else slow_s} if count > 2 else {}
    return {f"fastest of {count}": fast_s, **middle, f"slowest of {count}": slow_s}


def _number(step: TimedStep, position: int) -> int:
    return position if step.index is None else step.index


def _inside(step: TimedStep, position: int, count: int, first: int | None, last: int | None) -> bool:
    """True if a step lies in a window; negative bounds count from the last step, which is -1."""
    number, from_end = _number(step, position), position - count
    is_after = first is None or first <= (from_end if first < 0 else number)
    return is_after and (last is None or (from_end if last < 0 else number) <= last)
