"""How often the search behind a sweep of tiles names the slow node, and how often a sound one.

    python benchmarks/tile_search.py                 # all of it: an hour on two cores
    python benchmarks/tile_search.py --sweeps 20     # does it work? a minute
    python benchmarks/tile_search.py --scenarios     # the search alone where hours differ and switches are slow

Each sweep has a level of its own, as an hour on a cluster has, and jobs as slow as their slowest node. Sigma is never
given: it is estimated, by the tiles alone and with a history of twelve jobs. Beside it is the isolation of NVIDIA's
Cluster Readiness Engine, re-implemented from the public description (ADR-055). There a tile beyond a fixed limit of 5 %
is bisected: each half of a group runs once, filled up with nodes of tiles that were within the limit. A half that is
beyond the limit is bisected again. A node is named if a group of it alone is beyond the limit. Its level here is the
median of the sweep, which is in its favour: the level of the hour costs it nothing.

A sweep names an innocent if any finding, of a node or of nodes together, is of sound nodes alone, or if a sound node is
named slow. Each cell has a generator of its own, so that a seed gives the same figures.

Scenarios are of the search alone: hours that differ between its rounds, nodes that are slow in every second job, and
switches that slow down jobs with two of their nodes or more. There the search has the budget of a session.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pytest_gsw.common.node_lists import expand  # noqa: E402
from pytest_gsw.stats.noise import noise_of  # noqa: E402
from pytest_gsw.stats.tile_search import SearchState, TileJob, search  # noqa: E402

NODES = (32, 64, 256, 1024, 2048)
SIGMAS = (0.0165, 0.03)
#: Slow nodes, and the throughput that each loses.
CASES = {"one at -10 %": (1, 0.1), "three at -10 %": (3, 0.1), "quiet": (0, 0.0), "one at -5 %": (1, 0.05)}
#: Jobs of the row's history.
HISTORY = (0, 12)
LIMIT = -math.log1p(-0.05)
HOUR = 0.015

#: The seconds of a job on nodes.
Run = Callable[[Sequence[int]], float]


class Result(NamedTuple):
    #: Nodes named exactly.
    named: int
    names_innocent: bool
    node_jobs: int
    rounds: int


class Figures(NamedTuple):
    named: float
    innocent: float
    node_jobs: float
    rounds: float


class Cell(NamedTuple):
    seed: int
    nodes: int
    size: int
    sigma: float
    case: str
    history: int
    sweeps: int


def by_test(run: Run, nodes: int, size: int, slow: Mapping[int, float], history_s: Sequence[float]) -> Result:
    """The search of pytest-gsw."""
    noise = noise_of(history_s) if history_s else None
    names = [f"n{node:04d}" for node in range(nodes)]
    jobs = [
        TileJob(names[first], tuple(names[first : first + size]), run(range(first, first + size)))
        for first in range(0, nodes, size)
    ]
    node_jobs, rounds = nodes, 0
    while (state := search(jobs, noise=noise, rounds=rounds)).next_jobs:
        rounds = state.round
        for group in state.next_jobs:
            jobs.append(TileJob("", group, run([int(name[1:]) for name in group]), rounds))
            node_jobs += len(group)
    found = [one for one in state.findings if one.kind in ("slow", "between")]
    # In the base of against_base.py they are names already.
    lists = [expand(one.nodes) if isinstance(one.nodes, str) else one.nodes for one in found]
    sets = [{int(name[1:]) for name in names} for names in lists]
    named = sum(len(one) == 1 and one <= slow.keys() for one in sets)
    wrong = any(
        not one & slow.keys() or (finding.kind == "slow" and not one <= slow.keys())
        for one, finding in zip(sets, found, strict=True)
    )
    return Result(named, wrong, node_jobs, rounds)


def by_bisection(run: Run, nodes: int, size: int, slow: Mapping[int, float], _: Sequence[float]) -> Result:
    """Bisection with a fixed limit, one job a group."""
    tiles = [list(range(first, first + size)) for first in range(0, nodes, size)]
    logs = [math.log(run(tile)) for tile in tiles]
    level = statistics.median(logs)
    good = [node for tile, log in zip(tiles, logs, strict=True) if log - level <= LIMIT for node in tile]
    groups = [tile for tile, log in zip(tiles, logs, strict=True) if log - level > LIMIT]
    named: set[int] = set()
    node_jobs, rounds = nodes, 0
    while groups:
        rounds += 1
        # A tile of one node runs once more by itself.
        halves = [half for one in groups for half in (one[: len(one) // 2], one[len(one) // 2 :]) if half]
        groups = []
        for number, half in enumerate(halves):
            first = number * (size - len(half)) % max(1, len(good))
            partners = (good[first:] + good[:first])[: size - len(half)]
            node_jobs += len(half) + len(partners)
            if math.log(run(half + partners)) - level > LIMIT:
                if len(half) == 1:
                    named.update(half)
                else:
                    groups.append(half)
    return Result(len(named & slow.keys()), bool(named - slow.keys()), node_jobs, rounds)


def figures(cell: Cell) -> tuple[Figures, Figures]:
    """Those of the search and of bisection, of the same sweeps."""
    count, loss = CASES[cell.case]
    found = []
    for way in (by_test, by_bisection):
        rng = random.Random(f"{cell}")  # noqa: S311 - noise, not cryptography
        results = []
        for _ in range(cell.sweeps):
            slow = dict.fromkeys(rng.sample(range(cell.nodes), count), -math.log1p(-loss))
            history_s = [math.exp(rng.gauss(0, cell.sigma)) for _ in range(cell.history)]
            level = rng.gauss(0, HOUR)

            def run(nodes: Sequence[int], slow: Mapping[int, float] = slow, level: float = level) -> float:
                excess = max((slow.get(node, 0.0) for node in nodes), default=0.0)
                return 10 * math.exp(level + excess + rng.gauss(0, cell.sigma))  # noqa: B023

            results.append(way(run, cell.nodes, cell.size, slow, history_s))
        found.append(
            Figures(
                sum(one.named for one in results) / max(1, count) / cell.sweeps,
                sum(one.names_innocent for one in results) / cell.sweeps,
                sum(one.node_jobs for one in results) / cell.nodes / cell.sweeps,
                sum(one.rounds for one in results) / cell.sweeps,
            )
        )
    return found[0], found[1]


# -- Scenarios of the search alone -----------------------------------------------------------------


class Scenario(NamedTuple):
    tiles: int
    size: int
    sigma: float
    #: Slow nodes, and the excess of each; of a node that is slow in every second job only, too.
    slow: int = 0
    loss: float = 0.1
    every_second: bool = False
    #: Nodes below each leaf switch; one switch has the loss. 0 without switches.
    leaf: int = 0
    #: The level of the search's first round, and by how much each later one is slower.
    step: float = 0.0
    drift: float = 0.0


class Outcome(NamedTuple):
    #: Shares of the sweeps.
    names_innocent: float
    names_all: float
    #: An intermittent node where there is none.
    intermittent: float
    #: Of all slow nodes.
    named: float
    cleared: float
    #: Nodes that stand in more or fewer than one line.
    not_one_line: int
    node_jobs: float
    jobs: float
    rounds: float


SCENARIOS = {
    **{
        f"quiet, {size} a tile, {text}": Scenario(64 // size, size, 0.02, step=step, drift=drift)
        for size in (1, 4)
        for text, step, drift in (
            ("same hour", 0.0, 0.0),
            ("+1 %", 0.01, 0.0),
            ("+2 %", 0.02, 0.0),
            ("+3 %", 0.03, 0.0),
            ("-3 %", -0.03, 0.0),
            ("+1 % a round", 0.01, 0.01),
            ("-1 % a round", -0.01, -0.01),
        )
    },
    "quiet, 64 tiles, 3 %": Scenario(64, 1, 0.03),
    **{
        f"one, 64 nodes, {size} a tile, {sigma:.2%}{text}": Scenario(64 // size, size, sigma, slow=1, step=step)
        for size in (1, 4)
        for sigma in SIGMAS
        for text, step in (("", 0.0), (", +3 %", 0.03), (", -3 %", -0.03))
    },
    "three of 32, 4 a tile, 3 %": Scenario(8, 4, 0.03, slow=3),
    "five of 32, 4 a tile, 1.65 %": Scenario(8, 4, 0.0165, slow=5),
    "intermittent -15 %, 1.5 %": Scenario(64, 1, 0.015, slow=3, loss=0.15, every_second=True),
    **{
        f"switch of {leaf} in tiles of it, {sigma:.0%}": Scenario(count, leaf, sigma, leaf=leaf)
        for leaf, count in ((4, 16), (8, 8), (16, 9))
        for sigma in (0.02, 0.03)
    },
    **{
        f"switch of 32, {size} a tile, -{loss:.0%}, {sigma:.2%}": Scenario(288 // size, size, sigma, loss=loss, leaf=32)
        for size in (4, 16, 32)
        for sigma in (0.01, 0.0165)
        for loss in (0.05, 0.07, 0.1)
    },
    "288 nodes, 3 %": Scenario(288, 1, 0.03, slow=3),
}


def search_of(
    job_s: Callable[[Sequence[int], int], float], tiles: int, size: int, leaf: int, history_s: Sequence[float]
) -> tuple[SearchState, list[TileJob]]:
    """A sweep and its search with the budget of a session."""
    from pytest_gsw.session.tiles import most_jobs  # costs others the import of pytest

    names = [f"n{node:04d}" for node in range(tiles * size)]
    switches = {name: f"leaf{node // leaf}" for node, name in enumerate(names)} if leaf else None
    noise = noise_of(history_s) if history_s else None
    jobs = [
        TileJob(names[first], tuple(names[first : first + size]), job_s(range(first, first + size), 0))
        for first in range(0, len(names), size)
    ]
    rounds = 0
    while True:
        most = most_jobs(tiles) - (len(jobs) - tiles)
        state = search(jobs, noise=noise, switches=switches, rounds=rounds, most_jobs=most)
        if not state.next_jobs:
            return state, jobs
        rounds = state.round
        jobs += [
            TileJob("", group, job_s([int(name[1:]) for name in group], rounds), rounds) for group in state.next_jobs
        ]


def outcome(seed: int, name: str, sweeps: int) -> Outcome:
    """The mean outcome of a scenario's sweeps; each has a history of twelve jobs or none."""
    rng = random.Random(f"{seed} {name}")  # noqa: S311 - noise, not cryptography
    one, found = SCENARIOS[name], []
    nodes = one.tiles * one.size
    for number in range(sweeps):
        slow, excess, level = {*rng.sample(range(nodes), one.slow)}, -math.log1p(-one.loss), rng.gauss(0, HOUR)
        slow_switch = rng.randrange(nodes // one.leaf) if one.leaf else -1
        times = Counter[int]()

        def job_s(of_job: Sequence[int], round_: int) -> float:
            of_slow = [node for node in of_job if node in slow]  # noqa: B023
            times.update(of_slow)  # noqa: B023
            is_slow = any(not one.every_second or times[node] % 2 for node in of_slow)  # noqa: B023
            if one.leaf and len(of_job) > 1:
                is_slow = sum(node // one.leaf == slow_switch for node in of_job) > 1  # noqa: B023
            hour = one.step + one.drift * (round_ - 1) if round_ else 0.0
            return 10 * math.exp(level + hour + is_slow * excess + rng.gauss(0, one.sigma))  # noqa: B023

        history_s = [10 * math.exp(rng.gauss(0, one.sigma)) for _ in range(12 * (number % 2))]
        state, jobs = search_of(job_s, one.tiles, one.size, one.leaf, history_s)
        named = [each for each in state.findings if each.kind in ("slow", "between")]
        lines = Counter(
            [*state.cleared, *state.once, *(node for each in state.findings for node in expand(each.nodes))]
        )
        slow_names = {f"n{node:04d}" for node in slow}
        of_slow = {each.nodes for each in named} & slow_names
        right = {f"leaf{slow_switch}"} if one.leaf else {""}
        wrong = any(
            each.switch not in right or (not one.leaf and not {*expand(each.nodes)} & slow_names) for each in named
        )
        found.append(
            Outcome(
                wrong,
                any(each.switch for each in named) if one.leaf else of_slow == slow_names,
                not one.every_second and any(each.kind == "intermittent" for each in state.findings),
                len(of_slow) / max(1, one.slow),
                len(slow_names.intersection(state.cleared)) / max(1, one.slow),
                nodes - sum(count == 1 for count in lines.values()),
                sum(len(job.nodes) for job in jobs) / nodes,
                len(jobs) - one.tiles,
                state.round - 1,
            )
        )
    return Outcome(*map(statistics.fmean, zip(*found, strict=True)))  # type: ignore[arg-type]


def print_scenarios(asked: argparse.Namespace) -> None:
    names = [name for name in SCENARIOS if asked.scenarios in name]
    tasks = [(seed, name, asked.sweeps) for name in names for seed in asked.seeds]
    with multiprocessing.Pool(asked.processes) as pool:
        by_name: dict[str, list[Outcome]] = {}
        for (_, name, _), found in zip(tasks, pool.starmap(outcome, tasks, chunksize=1), strict=True):
            by_name.setdefault(name, []).append(found)
    formats = ("{:.1%}", "{:.1%}", "{:.1%}", "{:.1%}", "{:.1%}", "{:.1f}", "{:.2f}", "{:.1f}", "{:.1f}")
    table = [
        (
            name,
            *(
                text.format(statistics.fmean(column))
                for text, column in zip(formats, zip(*of, strict=True), strict=True)
            ),
        )
        for name, of in by_name.items()
    ]
    print(f"Seeds {asked.seeds}, {asked.sweeps} sweeps each, half of them with a history of twelve jobs.\n")
    heads = (
        "names an innocent",
        "names all",
        "intermittent",
        "named",
        "cleared",
        "without one line",
        "node-jobs/n",
        "jobs",
        "rounds",
    )
    print(tabulate(table, ("scenario", *heads), "github", disable_numparse=True))


def cells(asked: argparse.Namespace) -> list[Cell]:
    return [
        Cell(seed, nodes, size, sigma, case, history, asked.sweeps if nodes <= 256 else max(1, asked.sweeps * 3 // 10))
        for nodes in asked.nodes
        for size in (1, 4, 8)
        if size < 8 or nodes >= 256
        for sigma in SIGMAS
        for case in CASES
        for history in HISTORY
        for seed in asked.seeds
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=1000, help="of each cell and seed; from 1,024 nodes on 3 in 10")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--nodes", type=int, nargs="+", default=list(NODES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--scenarios", nargs="?", const="", help="the search alone: scenarios whose name has this text")
    asked = parser.parse_args()
    if asked.scenarios is not None:
        print_scenarios(asked)
        return
    every = cells(asked)
    with multiprocessing.Pool(asked.processes) as pool:
        by_cell: dict[tuple[object, ...], list[tuple[Figures, Figures]]] = {}
        for cell, found in zip(every, pool.imap(figures, every), strict=True):
            by_cell.setdefault(cell[1:6], []).append(found)
    print(f"Seeds {asked.seeds}. In each column: the search / bisection.\n")
    headers = (
        "nodes",
        "tile",
        "sigma",
        "slow",
        "history",
        "named",
        "names an innocent (worst seed)",
        "node-jobs/n",
        "rounds",
    )
    table = []
    for (nodes, size, sigma, case, history), found in by_cell.items():
        ours, theirs = ([pair[way] for pair in found] for way in (0, 1))
        row: list[str] = []
        for column, text in zip(Figures._fields, ("{:.1%}", "{:.2%}", "{:.2f}", "{:.1f}"), strict=True):
            values = [[getattr(one, column) for one in ways] for ways in (ours, theirs)]
            means = [text.format(statistics.fmean(one)) for one in values]
            if column == "innocent":
                means = [f"{mean} ({max(one):.1%})" for mean, one in zip(means, values, strict=True)]
            row.append("" if column == "named" and case == "quiet" else " / ".join(means))
        table.append((nodes, size, f"{sigma:.2%}", case, history, *row))
    print(tabulate(table, headers, "github"))


if __name__ == "__main__":
    main()
