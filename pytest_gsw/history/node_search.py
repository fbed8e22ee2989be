"""Nodes that make a cluster's jobs slow or fail them, by name and job; see :mod:`pytest_gsw.stats.slow_nodes`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import NodeSets, compressed, expand
from pytest_gsw.history.model import OF_TILES, ExperimentKey, Point, run_key, time_order
from pytest_gsw.history.store import Failure
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.stats.figures import SECONDS_PER_DAY
from pytest_gsw.stats.slow_nodes import JobEnd, JobTime, SearchResult, bits, failures, find

#: The most jobs of a node that its page lists, and the number of newest runs that are searched for them.
SHOWN_JOBS = 14


#: The newest days, in which failures count: a repaired node is not blamed for ever.
FAILURES_DAYS = 90


@dataclass(frozen=True)
class _NodeGroup:
    """A node, or several indistinguishable ones."""

    nodes: tuple[str, ...]

    @property
    def name(self) -> str:
        """``pool0-0017``, or ``one of pool0-[0017-0018]``."""
        return self.nodes[0] if len(self.nodes) == 1 else f"one of {compressed(self.nodes)}"


@dataclass(frozen=True)
class SlowNode(_NodeGroup):
    """A node that makes jobs slow, or several indistinguishable ones of which one does.

    For a switch, ``nodes`` is its name, ``switch s1``: no job runs on that.
    """

    #: Its effect on throughput, as a fraction below 0.
    change: float
    #: Its slow jobs, the first of which follows the last one that cleared it; and its other jobs.
    slow_jobs: tuple[Point, ...]
    fast_jobs: tuple[Point, ...]
    #: True if it has been fast again.
    recovered: bool
    #: The nodes of a switch, a node list; else empty.
    below: str = ""

    @property
    def label(self) -> str:
        """The name, that of a switch with its nodes: ``switch s1 (n[001-016])``."""
        return f"{self.name} ({self.below})" if self.below else self.name

    @cached_property
    def jobs(self) -> frozenset[tuple[str, str]]:
        """All its jobs, by run and id."""
        return frozenset((point.run_id, point.job_id) for point in (*self.slow_jobs, *self.fast_jobs))

    def ran_in(self, nodes: str, time_s: float) -> bool:
        """True if a job on these nodes ran with it, or with all indistinguishable ones, while it was slow."""
        end_s = self.slow_jobs[-1].time_s if self.recovered else math.inf
        return self.slow_jobs[0].time_s <= time_s <= end_s and set(self.nodes).issubset(expand(nodes))


@dataclass(frozen=True)
class KnownGoodNodes:
    """Known good nodes by the newest runs of a cluster, without the slow ones."""

    #: Nodes that are known good.
    cleared: tuple[str, ...] = ()
    #: Nodes without enough data.
    undecided: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailingNode(_NodeGroup):
    """Failed jobs of a node in the newest days, or of several nodes one of which fails them."""

    failed: int
    of: int
    #: The share of failures of the same rows, in the same runs, on all nodes of the cluster.
    usual: float
    #: True if that is beyond chance.
    named: bool


class NodeJob(NamedTuple):
    """One job on a node."""

    row: str
    run_id: str
    job_id: str
    time_s: float
    nodes: str
    #: Its row's outcome, or for a failed job the cause.
    outcome: str


class Nodes:
    """The nodes of a cluster, by its jobs."""

    def __init__(
        self,
        runs: Mapping[ExperimentKey, Sequence[Point]],
        excluded: Collection[str] = (),
        failures: Sequence[Failure] = (),
        switches: Mapping[str, str] | None = None,
        searched: Sequence[Record] = (),
    ) -> None:
        """Number nodes and runs.

        Args:
            runs: All measured jobs of the cluster, by row and experiment.
            excluded: The excluded runs.
            failures: All its jobs that failed because of the infrastructure.
            switches: The node list of each switch; unknown by default.
            searched: The records of its tiles on which a search has named nodes.
        """
        self._searched = [record for record in searched if record.run.id not in excluded]
        #: The rows of jobs.
        self._keys = tuple(runs)
        self._failures = [failure for failure in failures if failure.run_id not in excluded]
        known = [
            (point.time_s, row, point)
            for row, points in enumerate(runs.values())
            for point in points
            if point.nodes and 0 < point.judged < math.inf and point.run_id not in excluded
        ]
        known.sort(key=itemgetter(0, 1))
        numbers: dict[str, int] = {}
        counted = [(numbers.setdefault(run_key(point), len(numbers)), row, point) for _, row, point in known]
        # A run may continue while the next one begins: its jobs still belong to it.
        counted.sort(key=itemgetter(0))
        sets = NodeSets()
        self._jobs = [JobTime(run, row, math.log(point.cost), sets.of(point.nodes)) for run, row, point in counted]
        self._failed = [sets.of(failure.nodes) for failure in self._failures]
        # A switch of one node is not distinguished from it.
        self._switches = [(name, nodes) for name, nodes in (switches or {}).items() if sets.of(nodes).bit_count() > 1]
        self._below = [sets.of(nodes) for _, nodes in self._switches]
        self._names, self._points = tuple(sets.bits), [point for *_, point in counted]

    @cached_property
    def _found(self) -> SearchResult:
        return find(self._jobs, self._below)

    @cached_property
    def slow(self) -> tuple[SlowNode, ...]:
        """Slow nodes and switches, those that still are first; what a search names counts before other jobs."""
        still = {node for one in self._by_search if not one.recovered for node in (*one.nodes, *expand(one.below))}
        nodes = [
            SlowNode(
                self._named(group.nodes) if group.switch is None else self._switches[group.switch][:1],
                math.exp(-group.excess) - 1,
                tuple(self._points[index] for index in group.slow_jobs),
                tuple(self._points[index] for index in group.fast_jobs),
                group.recovered,
                "" if group.switch is None else self._switches[group.switch][1],
            )
            for group in self._found.slow_groups
            if group.slow_jobs
        ]
        nodes = [*self._by_search, *(slow_node for slow_node in nodes if still.isdisjoint(slow_node.nodes))]
        return tuple(sorted(nodes, key=lambda slow_node: (slow_node.recovered, slow_node.change, slow_node.nodes)))

    @cached_property
    def _by_search(self) -> tuple[SlowNode, ...]:
        """The nodes that searches among tiles have named, again after each sweep that they passed."""
        named = ((record.run.id, finding) for record in self._searched for finding in record.named)
        found: list[SlowNode] = []
        for listed, of_nodes in grouped([(finding.nodes, (run_id, finding)) for run_id, finding in named]).items():
            findings, nodes = dict(of_nodes), expand(listed)
            episodes: list[tuple[list[Point], list[Point]]] = []
            for point in sorted(self._points, key=time_order):
                if point.reason not in OF_TILES or set(nodes).isdisjoint(expand(point.nodes)):
                    continue
                if point.run_id in findings:
                    if not episodes or episodes[-1][1]:
                        episodes.append(([], []))
                    episodes[-1][0].append(point)
                elif episodes and outcomes.of(point.outcome).status == outcomes.GREEN:
                    episodes[-1][1].append(point)
            for slow, fast in episodes:
                one = findings[slow[-1].run_id]
                together = f"switch {one.switch}" if one.switch else f"tile {listed}" if one.kind == "between" else ""
                jobs = tuple(slow), tuple(fast), bool(fast)
                found.append(SlowNode((together,) if together else nodes, one.change, *jobs, together and listed))
        return tuple(found)

    @cached_property
    def sound(self) -> KnownGoodNodes:
        """Facts of the other nodes."""
        named = {node for slow_node in self._by_search if not slow_node.recovered for node in slow_node.nodes}
        others = (self._named(bits(nodes)) for nodes in (self._found.cleared, self._found.undecided))
        return KnownGoodNodes(*(tuple(node for node in nodes if node not in named) for nodes in others))

    def newest_jobs(self) -> Mapping[str, Sequence[NodeJob]]:
        """The newest jobs of each node, measured or failed because of the infrastructure, the newest first."""
        first = max((job.run for job in self._jobs), default=0) - SHOWN_JOBS
        ran: list[tuple[int, str, Point | Failure, str]] = [
            (job.nodes, self._keys[job.row].row, point, point.outcome)
            for job, point in zip(self._jobs, self._points, strict=True)
            if job.run > first
        ]
        ran += [(nodes, one.row, one, one.why) for one, nodes in zip(self._failures, self._failed, strict=True)]
        jobs_of: dict[str, list[NodeJob]] = defaultdict(list)
        for nodes, row, ran_job, outcome in sorted(ran, key=lambda each: -each[2].time_s):
            for node in bits(nodes):
                if len(of_node := jobs_of[self._names[node]]) < SHOWN_JOBS:
                    of_node.append(NodeJob(row, ran_job.run_id, ran_job.job_id, ran_job.time_s, ran_job.nodes, outcome))
        return jobs_of

    def _named(self, nodes: Iterable[int]) -> tuple[str, ...]:
        return tuple(sorted(self._names[node] for node in nodes))

    @cached_property
    def _since_s(self) -> float:
        """Time from which on failures count."""
        times_s = [*(point.time_s for point in self._points), *(failure.time_s for failure in self._failures)]
        return max(times_s, default=0.0) - FAILURES_DAYS * SECONDS_PER_DAY

    @property
    def failed_jobs(self) -> int:
        """Number of recent jobs that failed because of the infrastructure."""
        return sum(failure.time_s >= self._since_s for failure in self._failures)

    @cached_property
    def failures(self) -> tuple[FailingNode, ...]:
        """Every node with recent failures; those that fail more often than by chance come first."""
        if not self.failed_jobs:
            return ()
        since_s = self._since_s
        ended = [
            JobEnd(run_key(point), self._keys[job.row].row, job.nodes, failed=False)
            for job, point in zip(self._jobs, self._points, strict=True)
            if point.time_s >= since_s
        ]
        failed = [
            JobEnd(failure.run_id, failure.row, mask, failed=True)
            for failure, mask in zip(self._failures, self._failed, strict=True)
            if failure.time_s >= since_s
        ]
        groups = failures([*ended, *failed])
        return tuple(FailingNode(self._named(one.nodes), one.failed, one.of, one.usual, one.named) for one in groups)

    @property
    def failing(self) -> tuple[FailingNode, ...]:
        """The nodes with more failed jobs than by chance."""
        return tuple(node for node in self.failures if node.named)

    @property
    def all_known(self) -> bool:
        """True if nodes have run in the newest runs, and each is known to be slow or good."""
        return bool(self._jobs) and not self.sound.undecided
