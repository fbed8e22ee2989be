"""Nodes that make a cluster's jobs slow, by name and job; see :mod:`pytest_gsw.performance.slow_nodes`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_gsw.history.adding import Failure
from pytest_gsw.history.model import LineKey, Point, night_of
from pytest_gsw.performance import blame
from pytest_gsw.performance.blame import Ended
from pytest_gsw.performance.figures import SECONDS_PER_DAY
from pytest_gsw.performance.slow_nodes import Culprit, Found, Timed, bits, find
from pytest_gsw.results.nodes import NodeSets, compressed, expand

#: The newest days, that failures are counted in: a node that was repaired is not blamed for ever.
FAILURES_DAYS = 90


@dataclass(frozen=True)
class Suspect:
    """A node that makes jobs slow, or several that cannot be told apart, one of which does."""

    nodes: tuple[str, ...]
    #: What it does to throughput, as a fraction below 0.
    change: float
    #: Its jobs that are slow, the first of which was the first after the last that cleared it; and those that are not.
    accusing: tuple[Point, ...]
    clearing: tuple[Point, ...]
    #: Whether it has been fast again.
    mended: bool

    @property
    def name(self) -> str:
        """``pool0-0017``, or ``one of pool0-[0017-0018]``."""
        return name_of(self.nodes)

    @cached_property
    def jobs(self) -> frozenset[tuple[str, str]]:
        """All its jobs, by run and id."""
        return frozenset((point.run_id, point.job_id) for point in (*self.accusing, *self.clearing))

    def ran_in(self, nodes: str, time_s: float) -> bool:
        """Whether a job of these nodes ran with it, or with all that cannot be told apart, while it was slow."""
        end_s = self.accusing[-1].time_s if self.mended else math.inf
        return self.accusing[0].time_s <= time_s <= end_s and set(self.nodes).issubset(expand(nodes))


@dataclass(frozen=True)
class Sound:
    """What the newest nights of a cluster say of its nodes, but for those that are slow."""

    #: Nodes that are known to be sound.
    cleared: tuple[str, ...] = ()
    #: Nodes that their jobs do not tell of.
    untold: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failing:
    """How many jobs of a node the infrastructure failed lately, or of several nodes one of which does it."""

    nodes: tuple[str, ...]
    failed: int
    of: int
    #: The share that fails of the same rows, in the same nights, on all nodes of the cluster.
    usual: float
    #: Whether that is beyond chance.
    named: bool

    @property
    def name(self) -> str:
        """``pool0-0017``, or ``one of pool0-[0017-0018]``."""
        return name_of(self.nodes)


class Nodes:
    """The nodes of a cluster, as its jobs tell of them."""

    def __init__(
        self,
        nights: Mapping[LineKey, Sequence[Point]],
        excluded: Collection[str] = (),
        failures: Sequence[Failure] = (),
    ) -> None:
        """Number nodes and nights.

        Args:
            nights: All jobs of the cluster that were measured, by row and experiment.
            excluded: The runs that do not count.
            failures: All jobs of it that the infrastructure failed.
        """
        #: The rows of jobs.
        self._keys = tuple(nights)
        self._failures = [one for one in failures if one.run_id not in excluded]
        known = sorted(
            (
                (point.time_s, row, point)
                for row, points in enumerate(nights.values())
                for point in points
                if point.nodes and 0 < point.judged_s < math.inf
            ),
            key=lambda one: one[:2],
        )
        counted = [(row, point) for _, row, point in known if point.run_id not in excluded]
        numbers: dict[str, int] = {}
        for _, point in counted:
            numbers.setdefault(night_of(point), len(numbers))
        # A run may go on while the next one begins: its jobs are of its own night all the same.
        counted.sort(key=lambda one: numbers[night_of(one[1])])
        sets = NodeSets()
        self._jobs = []
        for row, point in counted:
            self._jobs.append(Timed(numbers[night_of(point)], row, math.log(point.judged_s), sets.of(point.nodes)))
        self._failed = [sets.of(one.nodes) for one in self._failures]
        self._names, self._points = tuple(sets.bits), [point for _, point in counted]

    @cached_property
    def _found(self) -> Found:
        return find(self._jobs)

    @cached_property
    def slow(self) -> tuple[Suspect, ...]:
        """Whoever was slow, those that still are first."""
        found = [_named(one, self._names, self._points) for one in self._found.culprits]
        there = (one for one in found if one.accusing)
        return tuple(sorted(there, key=lambda one: (one.mended, one.change, one.nodes)))

    @cached_property
    def sound(self) -> Sound:
        """What is known of the others."""
        return Sound(self._named(self._found.cleared), self._named(self._found.untold))

    def _named(self, nodes: int) -> tuple[str, ...]:
        return tuple(sorted(self._names[node] for node in bits(nodes)))

    @cached_property
    def _lately_s(self) -> float:
        """Since when failures count."""
        times_s = [*(point.time_s for point in self._points), *(one.time_s for one in self._failures)]
        return max(times_s, default=0.0) - FAILURES_DAYS * SECONDS_PER_DAY

    @property
    def failed_jobs(self) -> int:
        """How many jobs the infrastructure failed lately."""
        return sum(one.time_s >= self._lately_s for one in self._failures)

    @cached_property
    def failures(self) -> tuple[Failing, ...]:
        """Of each node of which a job failed lately; those that fail more often than by chance are first."""
        if not self.failed_jobs:
            return ()
        since_s = self._lately_s
        ended = [
            Ended(night_of(point), self._keys[job.row].row, job.nodes, failed=False)
            for job, point in zip(self._jobs, self._points, strict=True)
            if point.time_s >= since_s
        ]
        failed = [
            Ended(one.run_id, one.row, mask, failed=True)
            for one, mask in zip(self._failures, self._failed, strict=True)
            if one.time_s >= since_s
        ]
        found = blame.failures([*ended, *failed])
        names = (tuple(sorted(self._names[node] for node in one.nodes)) for one in found)
        return tuple(Failing(name, x.failed, x.of, x.usual, x.named) for name, x in zip(names, found, strict=True))

    @property
    def failing(self) -> tuple[Failing, ...]:
        """The nodes of which more jobs fail than by chance."""
        return tuple(one for one in self.failures if one.named)

    @property
    def all_told(self) -> bool:
        """Whether nodes have run in the newest nights, and of each it is known whether it is slow."""
        return bool(self._jobs) and not self.sound.untold


def name_of(nodes: Sequence[str]) -> str:
    """``pool0-0017``, or ``one of pool0-[0017-0018]``."""
    return nodes[0] if len(nodes) == 1 else f"one of {compressed(nodes)}"


def _named(one: Culprit, names: Sequence[str], points: Sequence[Point]) -> Suspect:
    return Suspect(
        tuple(sorted(names[node] for node in one.nodes)),
        math.exp(-one.excess) - 1,
        tuple(points[index] for index in one.accusing),
        tuple(points[index] for index in one.clearing),
        one.mended,
    )
