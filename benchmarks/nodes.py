"""How often a slow node is named, and a sound one: simulated clusters, and the package's own finder.

    python benchmarks/nodes.py                  # all of it: ten minutes
    python benchmarks/nodes.py --series 5       # does it work? half a minute

Rows run once a run, on nodes at random or on blocks of neighbours. Levels, effects of runs and noise are all
estimated, as with a real history. Each cell has a generator of its own, so that a seed gives the same figures.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pytest_gsw.stats.slow_nodes import JobTime, find  # noqa: E402

SIZES = (4, 8, 16, 32)
MANY_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
#: Nodes, rows and sizes of jobs of a cluster, and how many more histories a smaller one is drawn of.
CLUSTERS = ((64, 9, SIZES, 5), (256, 30, SIZES, 2), (2048, 30, MANY_SIZES, 1))
#: Nodes of a leaf switch, in the order of their numbers.
LEAF = 16
#: The run on which a node becomes slow, and so many runs later somebody looks.
CHANGE, LATER = 30, (3, 5, 7)

#: Noise of one job: of a generator, a standard deviation, what was before (by row or run), the row and the run.
Noise = Callable[[random.Random, float, dict[str, float], int, int], float]


def gaussian(rng: random.Random, sigma: float, _before: dict[str, float], _row: int, _cluster_effect: int) -> float:
    return rng.gauss(0, sigma)


def student(rng: random.Random, sigma: float, _before: dict[str, float], _row: int, _cluster_effect: int) -> float:
    return rng.gauss(0, sigma) / math.sqrt(2 * rng.gammavariate(1.5, 1))


def lognormal(rng: random.Random, sigma: float, _before: dict[str, float], _row: int, _cluster_effect: int) -> float:
    """Strongly skewed: a long tail of slow jobs."""
    return sigma * (rng.lognormvariate(0, 0.8) - math.exp(0.32)) / (math.exp(0.32) * math.sqrt(math.exp(0.64) - 1))


def autoregressive(rng: random.Random, sigma: float, before: dict[str, float], row: int, _cluster_effect: int) -> float:
    last = before.setdefault(f"row {row}", rng.gauss(0, sigma))
    before[f"row {row}"] = 0.5 * last + rng.gauss(0, sigma * math.sqrt(0.75))
    return before[f"row {row}"]


def shared(rng: random.Random, sigma: float, before: dict[str, float], _row: int, run: int) -> float:
    of_run = before.setdefault(f"night {run}", rng.gauss(0, sigma / math.sqrt(2)))
    return of_run + rng.gauss(0, sigma / math.sqrt(2))


def odd_jobs(rng: random.Random, sigma: float, _before: dict[str, float], _row: int, _cluster_effect: int) -> float:
    return rng.gauss(0, sigma) + (rng.uniform(0.05, 0.3) if rng.random() < 0.05 else 0.0)


def congestion(rng: random.Random, sigma: float, before: dict[str, float], row: int, run: int) -> float:
    """In one run of four an hour is slow, for the jobs that run in it: three rows that follow each other."""
    if f"hour {run}" not in before:
        before[f"hour {run}"] = rng.randrange(30) if rng.random() < 0.25 else -9
        before[f"slow {run}"] = rng.uniform(0.03, 0.12)
    in_it = 0 <= row - before[f"hour {run}"] < 3
    return rng.gauss(0, sigma) + (before[f"slow {run}"] if in_it else 0.0)


NOISES: Mapping[str, Noise] = {
    "Gaussian": gaussian,
    "Student t3": student,
    "lognormal": lognormal,
    "AR(1) 0.5": autoregressive,
    "shared night": shared,
    "1 in 20 slow": odd_jobs,
    "congestion": congestion,
}


def _on(kind: str, rng: random.Random, nodes: int, size: int) -> int:
    if kind == "random":
        return sum(1 << node for node in rng.sample(range(nodes), size))
    block = ((1 << size) - 1) << rng.randrange(nodes)
    return (block | block >> nodes) & ((1 << nodes) - 1)


def history(
    rng: random.Random,
    noise: Noise,
    kind: str,
    sigma: float,
    runs: int,
    nodes: int = 64,
    rows: int = 9,
    slow: Mapping[int, tuple[int, float]] | None = None,
    sizes: tuple[int, ...] = SIZES,
) -> list[JobTime]:
    """Jobs of runs; a slow node is so from a run on, by a logarithm."""
    jobs, before = [], {}
    for run in range(runs):
        for row in range(rows):
            mask = _on(kind, rng, nodes, sizes[row % len(sizes)])
            excess = [d for node, (since, d) in (slow or {}).items() if mask >> node & 1 and since <= run]
            value = row + max(excess, default=0.0) + noise(rng, sigma, before, row, run)
            jobs.append(JobTime(run, row, value, mask))
    return jobs


def leaves(nodes: int) -> list[int]:
    """The nodes of each leaf switch."""
    return [((1 << LEAF) - 1) << first for first in range(0, nodes, LEAF)]


def quiet(name: str, kind: str, nodes: int, rows: int, sizes: tuple[int, ...], series: int, seed: int) -> str:
    """The share of runs within the spells of nodes that are named though all are sound."""
    rng = random.Random(f"{seed} quiet {name} {kind} {nodes}")  # noqa: S311 - noise, not cryptography
    runs, named = 100, 0
    for _ in range(series):
        found = find(history(rng, NOISES[name], kind, 0.03, runs, nodes, rows, sizes=sizes), leaves(nodes))
        named += sum(one.last - one.since + 1 for one in found.slow_groups)
    return f"{named} of {runs * series:,}"


def power(kind: str, sigma: float, loss: float, later: int, series: int, seed: int) -> tuple[str, str, str]:
    """How often the slow node is named alone, in a set, and how often a sound one is."""
    rng = random.Random(f"{seed} power {kind} {sigma} {loss} {later}")  # noqa: S311 - noise, not cryptography
    alone = together = wrong = 0
    for _ in range(series):
        node = rng.randrange(64)
        slow = {node: (CHANGE, -math.log1p(-loss))}
        jobs = history(rng, gaussian, kind, sigma, CHANGE + later, slow=slow)
        groups = find(jobs, leaves(64)).slow_groups
        found = [one.nodes for one in groups if one.switch is None]
        alone += (node,) in found
        together += any(node in one and len(one) > 1 for one in found)
        wrong += any(node not in one for one in found) or len(found) < len(groups)
    return f"{alone / series:.0%}", f"{together / series:.0%}", f"{wrong} of {series}"


def shares(name: str, kind: str, size: int, later: int, series: int, seed: int) -> tuple[str, ...]:
    """How often a node at -10 % is named that is in jobs of so many of 64 nodes, a sound one, and who was cleared."""
    rng = random.Random(f"{seed} shares {name} {kind} {size} {later}")  # noqa: S311 - noise, not cryptography
    right = wrong = cleared = 0
    for _ in range(series):
        node = rng.randrange(64)
        slow = {node: (CHANGE, -math.log1p(-0.1))}
        jobs = history(rng, NOISES[name], kind, 0.03, CHANGE + later, slow=slow, rows=30, sizes=(size,))
        found = find(jobs, leaves(64))
        right += any(node in one.nodes for one in found.slow_groups if one.switch is None)
        wrong += any(node not in one.nodes or one.switch is not None for one in found.slow_groups)
        cleared += found.cleared >> node & 1
    return f"{right / series:.0%}", f"{wrong} of {series}", f"{cleared} of {series}"


def scale(kind: str, *switches: list[int]) -> str:
    """Processor time of a year of 30 rows on 2,048 nodes, three of which were slow for some time.

    ``switches`` are those of the nodes, if they are known: the search of a base commit may not take any.
    """
    rng = random.Random(f"scale {kind}")  # noqa: S311 - noise, not cryptography
    slow = {17: (40, 0.1), 900: (200, 0.08), 1500: (350, 0.1)}
    jobs = history(rng, gaussian, kind, 0.02, 365, 2048, 30, slow, MANY_SIZES)
    begin_s = time.process_time()
    find(jobs, *switches)
    return f"{time.process_time() - begin_s:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print("Nights that name a sound node, sigma 3 %:\n")
    table = [
        (
            name,
            kind,
            *(
                quiet(name, kind, nodes, rows, sizes, more * asked.series, asked.seed)
                for nodes, rows, sizes, more in CLUSTERS
            ),
        )
        for name in NOISES
        for kind in ("random", "blocks")
    ]
    headers = ("noise", "nodes", *(f"{nodes:,} nodes, {rows} rows" for nodes, rows, *_ in CLUSTERS))
    print(tabulate(table, headers, "github"), flush=True)
    print("\nA node at -10 % in 5, 10 and 20 % of jobs, 64 nodes, 30 jobs a night, sigma 3 %, seven nights later:\n")
    table = [
        (name, kind, f"{size / 64:.0%}", *shares(name, kind, size, 7, asked.series, asked.seed))
        for name in NOISES
        for kind in ("random", "blocks")
        for size in (3, 6, 13)
    ]
    headers = ("noise", "nodes", "in so many jobs", "named", "a sound one named", "cleared")
    print(tabulate(table, headers, "github"), flush=True)
    print("\nA node that became slow, 64 nodes, nine jobs a night:\n")
    table = [
        (kind, f"{loss:.0%}", f"{sigma:.2%}", later, *power(kind, sigma, loss, later, asked.series, asked.seed))
        for kind in ("random", "blocks")
        for loss, sigma in ((0.1, 0.0165), (0.1, 0.03), (0.05, 0.0165))
        for later in LATER
    ]
    headers = ("nodes", "loss", "sigma", "runs", "named alone", "in a set", "a sound one named")
    print(tabulate(table, headers, "github"), flush=True)
    print("\nProcessor time of a year, 30 rows, 2,048 nodes:\n")
    times = [(kind, scale(kind), scale(kind, leaves(2048))) for kind in ("random", "blocks")]
    print(tabulate(times, ("nodes", "time", "with switches"), "github"))


if __name__ == "__main__":
    main()
