"""How much slower a job was than its row usually is, beside how slow its night was for all rows.

All values are natural logarithms of times: a difference of 0.1 is 10 %.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_gsw.performance.noise import PRIOR, PRIOR_JOBS, pooled
from pytest_gsw.performance.together import effects_of

#: Jobs of a row that its level is the median of: those before a job, and where these are fewer, the next ones.
WINDOW = 30
#: Fewest jobs whose median is a level.
FEWEST = 4
#: The median distance of normal values from their median is 0.6745 standard deviations.
_NORMAL = 1.4826
#: Standard deviations by which the lower quartile and the lowest tenth of normal values lie below their mean.
_QUARTILE, _DECILE = 0.6745, 1.2816
#: How many jobs the spread of all rows counts for beside a row's own.
_POOLED_JOBS = 10
#: No noise is taken for less: a node that is slower by a thousandth is no culprit.
_LEAST_SIGMA = 0.005


@dataclass(frozen=True)
class Timed:
    """One measured job."""

    #: Nights are numbered as they come; one run of all rows is a night.
    night: int
    row: int
    #: The logarithm of what its step took.
    log_s: float
    #: Its nodes: bit i is the i-th node.
    nodes: int


class Excess(NamedTuple):
    """What a job took beyond its row's level and its night's effect, and the standard deviation of that."""

    value: float
    sigma: float


def excesses(
    jobs: Sequence[Timed], explained: Collection[int], restarts: Iterable[tuple[int, int]]
) -> list[Excess | None]:
    """The excess of each job; ``None`` where its row has too few jobs to have a level.

    Args:
        jobs: In the order of their nights.
        explained: Indices of jobs whose slowness is explained, and that make no level.
        restarts: A row, and the night from which on it has another level.
    """
    windows, of_job = _windows(jobs, explained, restarts)
    sigma = _usual_sigma(windows)
    centres = [_centre(window, sigma) for window in windows]
    over = [None if at is None else job.log_s - centres[at] for job, at in zip(jobs, of_job, strict=True)]
    effects = _effects(jobs, over, explained, sigma)
    values = over
    if effects:
        values = [None if x is None else x - effects.get(job.night, 0.0) for job, x in zip(jobs, over, strict=True)]
    sigmas = _sigmas(jobs, values, explained)
    return [None if x is None else Excess(x, sigmas[job.row]) for job, x in zip(jobs, values, strict=True)]


def _windows(
    jobs: Sequence[Timed], explained: Collection[int], restarts: Iterable[tuple[int, int]]
) -> tuple[list[Sequence[float]], list[int | None]]:
    """The jobs that make a level together, sorted, and for each job which of these are its row's."""
    begins: dict[int, list[int]] = defaultdict(list)
    for row, night in restarts:
        begins[row].append(night)
    of_segment: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, job in enumerate(jobs):
        of_segment[job.row, sum(night <= job.night for night in begins[job.row])].append(index)
    windows: list[Sequence[float]] = []
    of_job: list[int | None] = [None] * len(jobs)
    for indices in of_segment.values():
        clean = [jobs[index].log_s for index in indices if index not in explained]
        if len(clean) < FEWEST:
            continue
        before, first = 0, 0
        windows.append(sorted(clean[:WINDOW]))
        for index in indices:
            if before - WINDOW > first:
                first = before - WINDOW
                windows.append(sorted(clean[first : first + WINDOW]))
            of_job[index] = len(windows) - 1
            before += index not in explained
    return windows, of_job


def _quantile(ordered: Sequence[float], share: float) -> float:
    at = (len(ordered) - 1) * share
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _centre(ordered: Sequence[float], sigma: float) -> float:
    """Where jobs lie that no node slows down: above the lower quartile, which slow ones do not move by much."""
    return _quantile(ordered, 0.25) + _QUARTILE * sigma


def _usual_sigma(windows: Iterable[Sequence[float]]) -> float:
    """The spread of a usual row's jobs, by its faster ones."""
    spreads = [(_quantile(one, 0.25) - _quantile(one, 0.1)) / (_DECILE - _QUARTILE) for one in windows]
    return statistics.median(spreads) if spreads else PRIOR.sigma


def _effects(
    jobs: Sequence[Timed], over: Sequence[float | None], explained: Collection[int], sigma: float
) -> dict[int, float]:
    """By how much each night was slower for all rows; each row's first job counts."""
    first: dict[int, dict[int, float]] = defaultdict(dict)
    for index, (job, value) in enumerate(zip(jobs, over, strict=True)):
        if value is not None and index not in explained:
            first[job.night].setdefault(job.row, value)
    return effects_of(first, lambda values: _centre(sorted(values), sigma))


def _sigmas(jobs: Sequence[Timed], values: Sequence[float | None], explained: Collection[int]) -> dict[int, float]:
    """The spread of each row's jobs, drawn to that of all rows the more, the fewer jobs it has.

    C. Croux and P. J. Rousseeuw, Computational Statistics 1 (1992), p. 411: n / (n - 0.8) for small samples.
    """
    distances: dict[int, list[float]] = defaultdict(list)
    for index, (job, value) in enumerate(zip(jobs, values, strict=True)):
        theirs = distances[job.row]
        if value is not None and index not in explained:
            theirs.append(abs(value))
    spreads = {
        row: _NORMAL * statistics.median(one) * len(one) / (len(one) - 0.8)
        for row, one in distances.items()
        if len(one) > 1
    }
    usual = statistics.median(spreads.values()) if spreads else PRIOR.sigma
    all_rows = pooled(usual, sum(map(len, distances.values())), PRIOR.sigma, PRIOR_JOBS)
    return {
        row: max(_LEAST_SIGMA, pooled(spreads.get(row, all_rows), len(one), all_rows, _POOLED_JOBS))
        for row, one in distances.items()
    }
