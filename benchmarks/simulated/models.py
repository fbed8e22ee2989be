"""How jobs of a cluster's rows differ while nothing has changed: noise models, as data.

All values are natural logarithms of times over what the row usually takes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

#: Jobs that a row can have in one night: the first, and four that confirm it.
JOBS = 5
#: Autocorrelation of a level, from night to night.
LEVEL_RHO = 0.8
#: Congestion: the share of nights that have a slow hour, that of rows that run in it, what it costs them, and how
#: likely a further job is still in it.
SLOW_HOURS, ROWS_IN_IT, COST, STILL_IN_IT = 0.1, 0.4, (0.02, 0.1), 0.5
#: Single odd jobs: how many, and what they take longer.
ODD_JOBS, ODD_COST = 0.05, (0.05, 0.3)

#: One value of mean (or median) 0 and a standard deviation.
Shape = Callable[[random.Random, float], float]


def gaussian(rng: random.Random, sigma: float) -> float:
    return rng.gauss(0, sigma)


def student(rng: random.Random, sigma: float) -> float:
    """Three degrees of freedom, of the same standard deviation: the variance of Student's t3 is 3."""
    return rng.gauss(0, sigma) / math.sqrt(2 * rng.gammavariate(1.5, 1))


def lognormal(rng: random.Random, sigma: float) -> float:
    """Strongly skewed, with a long tail of slow jobs; skewness 3.7."""
    return sigma * (rng.lognormvariate(0, 0.8) - math.exp(0.32)) / (math.exp(0.32) * math.sqrt(math.expm1(0.64)))


def odd_jobs(rng: random.Random, sigma: float) -> float:
    return rng.gauss(0, sigma) + (rng.uniform(*ODD_COST) if rng.random() < ODD_JOBS else 0.0)


@dataclass(frozen=True)
class Model:
    """How jobs differ."""

    name: str
    #: Standard deviation of what a row's jobs differ by, without what all rows have in common.
    sigma: float
    shape: Shape = gaussian
    #: Autocorrelation from job to job: of the first jobs of nights, and of a night's further jobs.
    chained: float = 0.0
    #: The share of the variance that is a level of the row, which wanders from night to night.
    level: float = 0.0
    #: Standard deviation of what all jobs of a night have in common.
    night_sd: float = 0.0
    #: Whether nights have slow hours.
    congested: bool = False
    #: The share of jobs that have a slow node.
    slow_jobs: float = 0.0


def _family(name: str, sigmas: Sequence[float], **of_model: object) -> list[Model]:
    return [Model(f"{name} {sigma:.0%}", sigma, **of_model) for sigma in sigmas]  # type: ignore[arg-type]


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        *_family("Gaussian", (0.01, 0.02, 0.03, 0.05, 0.08)),
        *_family("Student t3", (0.02, 0.03), shape=student),
        *_family("lognormal", (0.02, 0.03), shape=lognormal),
        *_family("AR(1) 0.5", (0.02, 0.03), chained=0.5),
        *_family("level plus jobs", (0.02, 0.03), level=0.5),
        *(Model(f"shared night {sd:.0%}", 0.02, night_sd=sd) for sd in (0.01, 0.02, 0.03)),
        Model("shared night 1%, jobs 3%", 0.03, night_sd=0.01),
        Model("congestion", 0.02, congested=True),
        Model("1 in 20 slow", 0.02, odd_jobs),
        *(Model(f"slow nodes {share:.0%}", 0.02, slow_jobs=share) for share in (0.05, 0.1, 0.2)),
    )
}

#: Of a row, by night, each of its jobs.
Noise = list[list[float]]


def noise_of_rows(model: Model, rng: random.Random, rows: int, nights: int) -> list[Noise]:
    """What each row's jobs take, without nodes."""
    own = [_own(model, rng, nights) for _ in range(rows)]
    for night in range(nights):
        shared = rng.gauss(0, model.night_sd) if model.night_sd else 0.0
        is_slow = model.congested and rng.random() < SLOW_HOURS
        for row in own:
            hour = _slow_hour(rng) if is_slow and rng.random() < ROWS_IN_IT else (0.0,) * JOBS
            row[night] = [value + shared + late for value, late in zip(row[night], hour, strict=True)]
    return own


def _own(model: Model, rng: random.Random, nights: int) -> Noise:
    if model.chained:
        return _chained(model, rng, nights)
    of_job = model.sigma * math.sqrt(1 - model.level)
    levels = _wandering(rng, model.sigma * math.sqrt(model.level), nights)
    return [[level + model.shape(rng, of_job) for _ in range(JOBS)] for level in levels]


def _wandering(rng: random.Random, sigma: float, nights: int) -> list[float]:
    if not sigma:
        return [0.0] * nights
    levels, fresh = [rng.gauss(0, sigma)], sigma * math.sqrt(1 - LEVEL_RHO**2)
    while len(levels) < nights:
        levels.append(LEVEL_RHO * levels[-1] + rng.gauss(0, fresh))
    return levels


def _chained(model: Model, rng: random.Random, nights: int) -> Noise:
    fresh = model.sigma * math.sqrt(1 - model.chained**2)
    first, found = rng.gauss(0, model.sigma), []
    for _ in range(nights):
        first = model.chained * first + rng.gauss(0, fresh)
        jobs = [first]
        while len(jobs) < JOBS:
            jobs.append(model.chained * jobs[-1] + rng.gauss(0, fresh))
        found.append(jobs)
    return found


def _slow_hour(rng: random.Random) -> tuple[float, ...]:
    """What a slow hour costs each of a row's jobs."""
    cost, jobs = rng.uniform(*COST), 1
    while jobs < JOBS and rng.random() < STILL_IN_IT:
        jobs += 1
    return (cost,) * jobs + (0.0,) * (JOBS - jobs)
