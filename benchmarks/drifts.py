"""How often the drift rule is wrong of one row, and after how many runs it says what is true.

    python benchmarks/drifts.py                  # all of it: ten minutes
    python benchmarks/drifts.py --series 10      # does it work? half a minute

benchmarks/decisions.py has whole clusters, with what rows have in common taken out; this has one row by itself, of
enough series to choose the rule's thresholds by. Each cell has a generator of its own, so that a seed gives the same
figures. A change comes on a run between the 31st and the 121st.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pytest_gsw.stats.drift import warned_runs  # noqa: E402

#: Runs of a row, those of the reference counted; within how many of them a change should be found.
RUNS, SOON = 210, 28
SIGMAS = (0.01, 0.02, 0.03)

#: Deviations of a row's runs: of a generator and a standard deviation.
Noise = Callable[[random.Random, float], list[float]]


def each(run: Callable[[random.Random, float], float]) -> Noise:
    return lambda rng, sigma: [run(rng, sigma) for _ in range(RUNS)]


def student(rng: random.Random, sigma: float) -> float:
    return rng.gauss(0, sigma) / math.sqrt(2 * rng.gammavariate(1.5, 1))


def lognormal(rng: random.Random, sigma: float) -> float:
    return sigma * (rng.lognormvariate(0, 1) - math.exp(0.5)) / math.sqrt(math.exp(2) - math.exp(1))


def slow_nodes(share: float) -> Noise:
    """So many jobs have a node that makes them 10 % slower."""
    return each(lambda rng, sigma: rng.gauss(0, sigma) + 0.105 * (rng.random() < share))


def level_and_jobs(share: float, decay: float) -> Noise:
    """A level of this share of the variance keeps a part from run to run, and jobs differ besides."""

    def noise(rng: random.Random, sigma: float) -> list[float]:
        of_level, of_job = sigma * math.sqrt(share), sigma * math.sqrt(1 - share)
        level, found = rng.gauss(0, of_level), []
        for _ in range(RUNS):
            found.append(level + rng.gauss(0, of_job))
            level = decay * level + rng.gauss(0, of_level * math.sqrt(1 - decay**2))
        return found

    return noise


def congestion(rng: random.Random, sigma: float) -> list[float]:
    """One run in twenty begins a spell, of two and a half runs on average, that are slower by 2 sigma or so."""
    busy, found = False, []
    for _ in range(RUNS):
        busy = rng.random() < (0.6 if busy else 0.05)
        found.append(rng.gauss(0, sigma) + (rng.expovariate(1 / (2 * sigma)) if busy else 0.0))
    return found


NOISES: dict[str, Noise] = {
    "Gaussian": each(lambda rng, sigma: rng.gauss(0, sigma)),
    "Student t3": each(student),
    "lognormal": each(lognormal),
    "slow nodes 10 %": slow_nodes(0.1),
    "slow nodes 20 %": slow_nodes(0.2),
    "AR(1) 0.5": level_and_jobs(1.0, 0.5),
    "AR(1) 0.7": level_and_jobs(1.0, 0.7),
    "level 0.8 plus jobs": level_and_jobs(0.5, 0.8),
    "level 0.85 plus jobs": level_and_jobs(0.5, 0.85),
    "congestion": congestion,
}
#: How much slower a row is so many runs after its change began.
COURSES: dict[str, Callable[[int], float]] = {
    "step 3 %": lambda _: 0.03,
    "step 5 %": lambda _: 0.05,
    "drift 1 % a week": lambda after: 0.01 * (after + 1) / 7,
}


def false_alarms(noise: str, sigma: float, series: int, seed: int) -> str:
    rng = random.Random(f"{seed} {noise} {sigma}")  # noqa: S311 - noise, not cryptography
    warned = sum(bool(warned_runs([math.exp(value) for value in NOISES[noise](rng, sigma)])) for _ in range(series))
    return f"{warned / series:.1%}"


def found(noise: str, sigma: float, course: str, series: int, seed: int) -> str:
    """The share that is found soon, the median of runs to the warning, and the share that falls silent later."""
    rng = random.Random(f"{seed} {noise} {sigma} {course}")  # noqa: S311 - noise, not cryptography
    delays, silent = [], 0
    for _ in range(series):
        change = rng.randrange(30, 121)
        slower = [COURSES[course](run - change) if run >= change else 0.0 for run in range(RUNS)]
        values = NOISES[noise](rng, sigma)
        warned = [
            run
            for run in warned_runs([math.exp(sum(pair)) for pair in zip(values, slower, strict=True)])
            if run >= change
        ]
        delays.append(warned[0] - change + 1 if warned else RUNS)
        silent += bool(warned) and len(warned) < RUNS - warned[0]
    soon = sum(delay <= SOON for delay in delays) / series
    return f"{soon:.0%} · {statistics.median_low(delays)} · {silent / series:.1%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=300, help="rows in each cell (default 300)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    sigmas = [f"sd {sigma:.0%}" for sigma in SIGMAS]
    quiet = [[name, *(false_alarms(name, sigma, asked.series, asked.seed) for sigma in SIGMAS)] for name in NOISES]
    print(tabulate(quiet, ["false alarm in 180 nights", *sigmas], "github"), end="\n\n", flush=True)
    print(f"found within {SOON} nights · median nights · silent on a later night\n")
    changed = [
        [name, course, *(found(name, sigma, course, max(1, asked.series // 3), asked.seed) for sigma in SIGMAS)]
        for name in ("Gaussian", "AR(1) 0.5", "level 0.8 plus jobs")
        for course in COURSES
    ]
    print(tabulate(changed, ["noise", "change", *sigmas], "github"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
