"""Rows judged together against each row by itself: simulated nights, decided by the package's own functions.

    python benchmarks/together.py                   # all of it: some minutes
    python benchmarks/together.py --drift           # warnings of drift in 180 nights
    python benchmarks/together.py --clusters 5      # does it work? seconds

Levels, effects of nights and noise are estimated from 30 nights. A row that is decided has its further jobs in the same
night. Each cell has a generator of its own, so that a seed gives the same figures.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pytest_gsw.performance.decision import Outcome, decide  # noqa: E402
from pytest_gsw.performance.drift import warned_nights  # noqa: E402
from pytest_gsw.performance.noise import noise_of, prior_for  # noqa: E402
from pytest_gsw.performance.together import Before, Tonight, decide_beside, level_of  # noqa: E402

ROWS, NIGHTS, TOLERANCE, CONFIRM = 30, 30, 0.05, 4
#: Nights that are decided for each cluster.
DECIDED = 20
#: Nights of a cluster that may creep, and the first of these.
CREEPING, SUSPECT = 180, 40

#: What a night, by its number, takes more than before: of all rows where none is named, else of that row.
Change = Callable[[int, str], float]


@dataclass
class Came:
    """What came of nights."""

    nights: int = 0
    incidents: int = 0
    #: Nights with a failed row; failed and inconclusive rows; jobs beyond the first.
    with_failure: int = 0
    failed: int = 0
    inconclusive: int = 0
    further: int = 0
    #: Failures of the row that has a loss of its own, which are none of the above.
    found: int = 0


class Cluster:
    """Thirty rows, and what they measured before."""

    def __init__(self, rng: random.Random, night_sd: float, job_sd: float) -> None:
        self.rng, self.night_sd, self.job_sd = rng, night_sd, job_sd
        nights = []
        for _ in range(NIGHTS):
            effect = rng.gauss(0, night_sd)
            nights.append({f"row {row}": math.exp(effect + rng.gauss(0, job_sd)) for row in range(ROWS)})
        references = {row: [night[row] for night in nights] for row in nights[0]}
        levels = {row: level for row, seconds in references.items() if (level := level_of(seconds)) is not None}
        self.before = Before(nights, levels)
        self.noise = {row: noise_of(seconds, prior_for(TOLERANCE)) for row, seconds in references.items()}

    def night(self, lost: Mapping[str, float], cluster_lost: float, *, together: bool, came: Came) -> None:
        """Decide one night; what is lost are fractions of throughput."""
        slower = self.rng.gauss(0, self.night_sd) - math.log1p(-cluster_lost)

        def job(row: str) -> float:
            return math.exp(slower - math.log1p(-lost.get(row, 0.0)) + self.rng.gauss(0, self.job_sd))

        jobs = {row: [job(row)] for row in self.noise}
        levels = self.before.levels
        tonight = Tonight(self.before, {row: math.log(one) - levels[row] for row, (one,) in jobs.items()})
        failed = 0
        for row, times_s in jobs.items():
            while True:
                if together:
                    (night,) = tonight.bounds(row, TOLERANCE)
                    joint = decide_beside(times_s, 1.0, TOLERANCE, night, confirm=CONFIRM)
                    outcome, more = joint.outcome, joint.more
                else:
                    decision = decide(times_s, 1.0, TOLERANCE, self.noise[row], confirm=CONFIRM)
                    outcome, more = decision.outcome, decision.more
                if not more:
                    break
                times_s.append(job(row))
                came.further += 1
            if row in lost:
                came.found += outcome is Outcome.REGRESSED
            else:
                failed += outcome is Outcome.REGRESSED
                came.inconclusive += outcome is Outcome.INCONCLUSIVE
        came.nights += 1
        came.failed += failed
        came.with_failure += failed > 0
        effect = tonight.effect()
        came.incidents += effect is not None and effect.is_incident


def alarms(rng: random.Random, night_sd: float, job_sd: float, change: Change) -> tuple[list[int], ...]:
    """Of one cluster the nights of the first warning, 0 for none: of the cluster, of each row, of each by itself."""
    whole = []
    for number in range(CREEPING):
        effect = rng.gauss(0, night_sd) + change(number, "")
        whole.append(
            {
                f"row {row}": math.exp(effect + change(number, f"row {row}") + rng.gauss(0, job_sd))
                for row in range(ROWS)
            }
        )
    levels = {row: level_of([night[row] for night in whole[:NIGHTS]]) or 0.0 for row in whole[0]}
    before = Before(whole, levels)
    by_itself = [first(warned_nights([night[row] for night in whole])) for row in levels]
    own = []
    for row in levels:
        taken = before.taken(row)
        own.append(first(warned_nights([one[row] * math.exp(-taken[number]) for number, one in enumerate(whole)])))
    return [first(warned_nights([math.exp(one) for one in before.effects.values()]))], own, by_itself


def first(nights: Sequence[int]) -> int:
    return nights[0] if nights else 0


def drift_table(clusters: int, seed: int) -> str:
    """What comes of 180 nights."""
    week = math.log(1.01) / 7
    changes: dict[str, Change] = {
        "nothing": lambda _n, _row: 0.0,
        "cluster 1 % a week": lambda n, row: 0.0 if row else week * max(0, n - SUSPECT),
        "cluster 3 % step": lambda n, row: 0.0 if row else 0.03 * (n >= SUSPECT),
        "cluster 5 % faster": lambda n, row: 0.0 if row else -0.05 * (n >= SUSPECT),
        "a row 1 % a week": lambda n, row: week * max(0, n - SUSPECT) if row == "row 0" else 0.0,
    }
    table = []
    for night_sd, job_sd in ((0.0, 0.02), (0.0, 0.03), (0.01, 0.03), (0.03, 0.02)):
        for name, change in changes.items():
            rng = random.Random(f"drift {seed} {night_sd} {job_sd} {name}")  # noqa: S311 - noise
            came = [alarms(rng, night_sd, job_sd, change) for _ in range(clusters)]
            kinds = [[one for each in came for one in each[kind]] for kind in range(3)]
            if name.startswith("a row"):
                kinds = [kinds[0], *([one[kind][0] for one in came] for kind in (1, 2))]
            table.append([f"{night_sd:.0%}, {job_sd:.0%}", name, *map(_warned, kinds)])
    heads = "night, job|change|cluster warned, median night|rows beside the others|rows by themselves"
    return tabulate(table, heads.split("|"), tablefmt="github")


def _warned(nights: Sequence[int]) -> str:
    found = sorted(one - SUSPECT for one in nights if one)
    share = f"{100 * len(found) / len(nights):.1f} %"
    return f"{share}, {found[len(found) // 2]}" if 2 * len(found) > len(nights) else share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drift", action="store_true", help="warnings of drift, of the cluster and of rows")
    given = parser.parse_args()
    if given.drift:
        print(drift_table(given.clusters, given.seed))
        return
    table = []
    for night_sd, job_sd in ((0.0, 0.02), (0.0, 0.03), (0.01, 0.03), (0.02, 0.02), (0.03, 0.02)):
        for name, lost, cluster_lost in (
            ("nothing", {}, 0.0),
            ("a row -7 %", {"row 0": 0.07}, 0.0),
            ("a row -10 %", {"row 0": 0.1}, 0.0),
            ("cluster -3 %", {}, 0.03),
            ("cluster -8 %", {}, 0.08),
        ):
            for together in (False, True):
                rng = random.Random(f"{given.seed} {night_sd} {job_sd} {name}")  # noqa: S311 - noise
                came = Came()
                for _ in range(given.clusters):
                    cluster = Cluster(rng, night_sd, job_sd)
                    for _ in range(DECIDED):
                        cluster.night(lost, cluster_lost, together=together, came=came)
                rows = came.nights * (ROWS - len(lost))
                table.append(
                    [
                        f"{night_sd:.0%}, {job_sd:.0%}",
                        name,
                        "together" if together else "alone",
                        f"{100 * came.failed / rows:.2f} %",
                        f"{100 * came.with_failure / came.nights:.1f} %",
                        f"{100 * came.inconclusive / rows:.2f} %",
                        f"{100 * came.found / came.nights:.0f} %" if lost else "",
                        f"{100 * came.incidents / came.nights:.1f} %" if together else "",
                        f"{came.further / came.nights:.1f}",
                    ]
                )
    heads = "night, job|change|rule|rows failed|nights with one|inconclusive|row found|incidents|further jobs a night"
    print(tabulate(table, heads.split("|"), tablefmt="github"))


if __name__ == "__main__":
    main()
