"""What is measured and not believed: a gain beyond belief, ranks of one job that differ, steps that outlast a job."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_gsw.performance import noise as noises
from pytest_gsw.performance.decision import is_above, is_below
from pytest_gsw.performance.noise import Noise

#: By how much more than its job's time the steps of a log take where that is told, and the seconds that a scheduler's
#: whole ones are off by.
_LONGER, _ROUNDED_S = 1.1, 2.0


@dataclass(frozen=True)
class RanksApart:
    """The ranks of one job whose step times differ from those of the others."""

    #: Label and seconds of each such rank, the farthest one first.
    ranks: tuple[tuple[str, float], ...]
    #: The median of all the job's ranks, seconds.
    median_s: float


def believed_gain(max_gain: float, tolerance: float, noise: Noise) -> float:
    """The gain of throughput beyond which nothing is believed, as a fraction.

    It is that of a row without noise, or what a single job gains by noise now and then, where that is more.

    Raises:
        ValueError: The tolerance is not finite and above zero.
    """
    return max(max_gain, noises.gain_limit(tolerance, noise))


def is_too_good(jobs_s: Sequence[float], reference_s: float, believed: float) -> bool:
    """Whether any job gains more than is believed: a median has a job that trained nothing in it as well."""
    return is_above(reference_s / min(jobs_s), believed)


def ranks_of_jobs(jobs: Iterable[Mapping[str, float]]) -> Mapping[str, float]:
    """Of several jobs' ranks, those of the job in which they differ the most; one job's may be unknown, and empty."""
    return min(jobs, key=lambda ranks_s: min(ranks_s.values()) / max(ranks_s.values()) if ranks_s else 1.0)


def ranks_apart(ranks_s: Mapping[str, float], tolerance: float) -> RanksApart | None:
    """The ranks that differ from the others; ``None`` where the slowest and the fastest are within the tolerance.

    Each step of synchronous training ends when all ranks have exchanged their gradients, so that all take the same
    time. Where they do not, not all of them took part, or the lines are not of what they seem to be. A rank's time is
    its median over the measured steps, above zero.
    """
    if len(ranks_s) < 2 or not is_below(min(ranks_s.values()) / max(ranks_s.values()), tolerance):
        return None
    median_s = statistics.median(ranks_s.values())

    def nearness(seconds: float) -> float:
        return min(seconds / median_s, median_s / seconds)

    ordered = sorted(ranks_s.items(), key=lambda rank: nearness(rank[1]))
    # Where they are spread evenly, none is by itself beyond the tolerance.
    away = [rank for rank in ordered if is_below(nearness(rank[1]), tolerance)] or ordered[:2]
    return RanksApart(tuple(away), median_s)


def is_longer_than_job(series_s: Sequence[float], run_s: float) -> bool:
    """Whether steps took clearly longer than their job ran for: not all are its own, or the log's clock is wrong."""
    return _LONGER * run_s + _ROUNDED_S < sum(series_s) < math.inf
