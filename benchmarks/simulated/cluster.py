"""A simulated cluster: what the jobs of its rows take, run by run, and on which nodes they run."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.simulated.models import JOBS, Model, Noise, noise_of_rows

NODES = 150
#: Nodes of a row's jobs: rows take turns.
SIZES = (1, 2, 4, 8)
#: Loss of throughput of a job that has a slow node.
NODE_LOSS = 0.10
#: The share of runs in which a block of nodes is congested, and what that costs.
BLOCK_SHARE, BLOCK_COST = 0.08, (0.02, 0.08)


def block_nodes(block: int, blocks: int) -> range:
    """The nodes of one of so many blocks."""
    return range(NODES)[block * NODES // blocks : (block + 1) * NODES // blocks]


@dataclass(frozen=True)
class Change:
    """What becomes of rows from some run on: they lose throughput, at once or more of it every week."""

    name: str
    loss: float = 0.0
    is_weekly: bool = False

    def slower(self, runs: int) -> float:
        """By what logarithm rows are slower so many runs after the first one with it."""
        log = -math.log1p(-self.loss)
        return log * (runs + 1) / 7 if self.is_weekly else log


NOTHING = Change("nothing")


@dataclass(frozen=True)
class Ran:
    """One job: what a step of it took, and its nodes."""

    time_s: float
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Life:
    """The jobs that a cluster's rows can have. All rules judge the same ones."""

    model: Model
    noise: Sequence[Noise]
    #: What its draws of nodes begin with.
    seed: int
    #: Slow nodes: since which run.
    slow: Mapping[int, int] = field(default_factory=dict)
    #: Whether jobs have nodes that matter.
    has_nodes: bool = False
    change: Change = NOTHING
    #: The first run with the change.
    at: int = 0
    #: The row that it is one of; ``None``: all rows.
    row: int | None = None

    @property
    def rows(self) -> int:
        return len(self.noise)

    @property
    def runs(self) -> int:
        return len(self.noise[0])

    @property
    def usual_s(self) -> float:
        """What rows take while nothing has changed, seconds."""
        return self.model.usual_s

    def has_run(self, row: int, run: int) -> bool:
        """Whether a row runs in a run."""
        return bool(self.noise[row][run])

    def ran(self, row: int, run: int, job: int = 0, avoided: frozenset[int] = frozenset()) -> Ran:
        """A row's job in a run, the first or a further one; further ones do without some nodes."""
        value = self.noise[row][run][job]
        if run >= self.at and self.row in {None, row}:
            value += self.change.slower(run - self.at)
        nodes = self._nodes(row, run, job, avoided) if self.has_nodes else ()
        if any(self.slow.get(node, self.runs) <= run for node in nodes):
            value -= math.log1p(-NODE_LOSS)
        if self.model.second_half and nodes and nodes[0] >= NODES // 2:
            value -= math.log1p(-self.model.second_half)
        for block in {node * self.model.blocks // NODES for node in nodes if self.model.blocks}:
            value += self._congestion(block, run)
        time_s = self.usual_s * math.exp(value)
        return Ran(time_s if self.model.decimals is None else round(time_s, self.model.decimals), nodes)

    def _congestion(self, block: int, run: int) -> float:
        rng = random.Random(f"{self.seed} {block} {run}")  # noqa: S311 - noise
        return rng.uniform(*BLOCK_COST) if rng.random() < BLOCK_SHARE else 0.0

    def _nodes(self, row: int, run: int, job: int, avoided: frozenset[int]) -> tuple[int, ...]:
        rng = random.Random(self.seed + job + JOBS * (row + self.rows * run))  # noqa: S311 - noise
        size = SIZES[row % len(SIZES)]
        there = range(NODES)
        if self.model.second_half:
            there = there[NODES // 2 :] if rng.random() < 0.5 else there[: NODES // 2]
        elif self.model.blocks:  # a job has nodes of one block
            block = rng.randrange(self.model.blocks)
            there = block_nodes(block, self.model.blocks)
        drawn = rng.sample(there, min(len(there), size + len(avoided)))
        return tuple(node for node in drawn if node not in avoided)[:size]


def life_of(model: Model, seed: str, rows: int, runs: int) -> Life:
    """A cluster on which nothing changes."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    slow = dict.fromkeys(rng.sample(range(NODES), _slow_nodes(model.slow_jobs)), 0)
    noise = noise_of_rows(model, rng, rows, runs)
    return Life(model, noise, rng.randrange(2**40), slow, has_nodes=bool(slow or model.second_half or model.blocks))


def _slow_nodes(share: float) -> int:
    """How many nodes make about that share of jobs slow."""
    return round(share * NODES / (sum(SIZES) / len(SIZES)) * (1 + share / 2))
