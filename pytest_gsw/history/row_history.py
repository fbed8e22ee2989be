"""The history of a row: the runs that count, their reference, and the noise between them.

Sessions, the report and every command use this module, and therefore agree on a row.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import islice, takewhile
from operator import itemgetter
from typing import NamedTuple

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import NodeSets, compressed, expand
from pytest_gsw.common.process import collector_paused
from pytest_gsw.history.model import OF_TILES, ExperimentKey, Point, SeriesKey, run_key, series_key
from pytest_gsw.history.since import GOOD_RUNS, Period, Since, changed, drift_onset, onset, periods
from pytest_gsw.history.store import EXCLUDE, TOPOLOGY, Event, Failure, History
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record, ran_with
from pytest_gsw.results.runs_directory import begin_of
from pytest_gsw.stats.cluster_effect import ClusterReference, CurrentRun, level_of
from pytest_gsw.stats.drift import NEWEST, Drift, drift
from pytest_gsw.stats.figures import SECONDS_PER_DAY
from pytest_gsw.stats.noise import PRIOR, REFERENCE_JOBS, Noise, OwnLevel, noise_of, prior_for, ratio_sd
from pytest_gsw.stats.slow_nodes import JobEnd, JobTime, SearchResult, bits, failures, find
from pytest_gsw.stats.verdict import UNUSUAL, Reason
from pytest_gsw.tables.model import Accepted

# -- Nodes that make a cluster's jobs slow, by name and job; see :mod:`pytest_gsw.stats.slow_nodes` --


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
        self._failures = [one for one in failures if one.run_id not in excluded]
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
        self._failed = [sets.of(one.nodes) for one in self._failures]
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
        found = [
            SlowNode(
                self._named(one.nodes) if one.switch is None else self._switches[one.switch][:1],
                math.exp(-one.excess) - 1,
                tuple(self._points[index] for index in one.slow_jobs),
                tuple(self._points[index] for index in one.fast_jobs),
                one.recovered,
                "" if one.switch is None else self._switches[one.switch][1],
            )
            for one in self._found.slow_groups
            if one.slow_jobs
        ]
        found = [*self._by_search, *(one for one in found if still.isdisjoint(one.nodes))]
        return tuple(sorted(found, key=lambda one: (one.recovered, one.change, one.nodes)))

    @cached_property
    def _by_search(self) -> tuple[SlowNode, ...]:
        """The nodes that searches among tiles have named, again after each sweep that they passed."""
        named = ((record.run.id, one) for record in self._searched for one in record.named)
        found: list[SlowNode] = []
        for listed, of_nodes in grouped([(one.nodes, (run_id, one)) for run_id, one in named]).items():
            findings, nodes = dict(of_nodes), expand(listed)
            episodes: list[tuple[list[Point], list[Point]]] = []
            for point in sorted(self._points, key=_time):
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
        named = {node for one in self._by_search if not one.recovered for node in one.nodes}
        others = (self._named(bits(nodes)) for nodes in (self._found.cleared, self._found.undecided))
        return KnownGoodNodes(*(tuple(node for node in nodes if node not in named) for nodes in others))

    def newest_jobs(self) -> Mapping[str, Sequence[NodeJob]]:
        """The newest jobs of each node, measured or failed because of the infrastructure, the newest first."""
        first = max((job.run for job in self._jobs), default=0) - SHOWN_JOBS
        ran: list[tuple[int, str, Point | Failure, str]] = [
            (job.nodes, self._keys[job.row].row, one, one.outcome)
            for job, one in zip(self._jobs, self._points, strict=True)
            if job.run > first
        ]
        ran += [(nodes, one.row, one, one.why) for one, nodes in zip(self._failures, self._failed, strict=True)]
        found: dict[str, list[NodeJob]] = defaultdict(list)
        for nodes, row, one, outcome in sorted(ran, key=lambda each: -each[2].time_s):
            for node in bits(nodes):
                if len(of_node := found[self._names[node]]) < SHOWN_JOBS:
                    of_node.append(NodeJob(row, one.run_id, one.job_id, one.time_s, one.nodes, outcome))
        return found

    def _named(self, nodes: Iterable[int]) -> tuple[str, ...]:
        return tuple(sorted(self._names[node] for node in nodes))

    @cached_property
    def _since_s(self) -> float:
        """Time from which on failures count."""
        times_s = [*(point.time_s for point in self._points), *(one.time_s for one in self._failures)]
        return max(times_s, default=0.0) - FAILURES_DAYS * SECONDS_PER_DAY

    @property
    def failed_jobs(self) -> int:
        """Number of recent jobs that failed because of the infrastructure."""
        return sum(one.time_s >= self._since_s for one in self._failures)

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
            JobEnd(one.run_id, one.row, mask, failed=True)
            for one, mask in zip(self._failures, self._failed, strict=True)
            if one.time_s >= since_s
        ]
        found = failures([*ended, *failed])
        return tuple(FailingNode(self._named(one.nodes), one.failed, one.of, one.usual, one.named) for one in found)

    @property
    def failing(self) -> tuple[FailingNode, ...]:
        """The nodes with more failed jobs than by chance."""
        return tuple(one for one in self.failures if one.named)

    @property
    def all_known(self) -> bool:
        """True if nodes have run in the newest runs, and each is known to be slow or good."""
        return bool(self._jobs) and not self.sound.undecided


# -- The runs of all rows of a cluster: the slowdown of each for all rows, its start, and the changes then --


@dataclass(frozen=True)
class ClusterRun:
    """One run of a cluster, with the first job of each row."""

    #: The run, or the day of imports.
    name: str
    #: End of its first job, seconds since the epoch.
    time_s: float
    #: The first job of each row.
    points: Mapping[str, Point]

    @property
    def begin_s(self) -> float:
        """Its start."""
        return begin_of(self.name, self.time_s)


@dataclass(frozen=True)
class ClusterDrifting:
    """A drift of a cluster: its newest runs are slower than its first ones for its rows together."""

    drift: Drift
    onset: Since
    #: Number of rows in the newest run.
    rows: int


@dataclass(frozen=True)
class ClusterAdjustment:
    """The effect of the cluster on each of its rows."""

    together: ClusterHistory
    #: The effect of a run that is not in the history yet, by its name.
    current_run: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def taken(self) -> Mapping[str, float]:
        """The part of the cluster's effect that is subtracted from a row before a search for drift, by run."""
        current_run = {name: self.together.before.taken_in_run(effect) for name, effect in self.current_run.items()}
        return {**self.together.taken, **current_run}


@dataclass(frozen=True)
class ClusterHistory:
    """The runs of all rows of one cluster, by the history of each row."""

    histories: Mapping[str, RowHistory]

    @cached_property
    def runs(self) -> tuple[ClusterRun, ...]:
        """The runs that count for some row, the oldest first."""
        found: dict[str, dict[str, Point]] = {}
        for row, past in self.histories.items():
            for point in past.counted:
                found.setdefault(run_key(point), {}).setdefault(row, point)
        runs = (ClusterRun(name, min(one.time_s for one in points.values()), points) for name, points in found.items())
        return tuple(sorted(runs, key=lambda run: (run.time_s, run.name)))

    @cached_property
    def before(self) -> ClusterReference:
        """The reference for the effect of a run: levels of rows, and the noise that their runs have in common."""
        levels = {row: level_of([one.cost for one in past.reference]) for row, past in self.histories.items()}
        costs = [{row: point.cost for row, point in run.points.items()} for run in self.runs]
        slow = [{row for row, point in run.points.items() if point.is_too_slow} for run in self.runs]
        return ClusterReference(costs, {row: level for row, level in levels.items() if level is not None}, slow)

    def current_run(self, first: Mapping[str, float], missing: int = 0) -> CurrentRun:
        """A run that is not among these.

        Args:
            first: The cost of the first job of each row whose first job has ended.
            missing: Number of rows with a level whose first job may still be measured.
        """
        levels = self.before.levels
        over = {row: math.log(cost) - levels[row] for row, cost in first.items() if row in levels}
        return CurrentRun(self.before, over, missing)

    def including_run(self, points: Mapping[str, Point]) -> ClusterHistory:
        """The same with a run that is not among these, by the first job of each row."""
        return ClusterHistory(
            {row: past.including_run([points[row]]) if row in points else past for row, past in self.histories.items()}
        )

    def until(self, time_s: float, run_id: str) -> ClusterHistory:
        """The runs up to a time, without the run that is reported by itself."""
        return ClusterHistory({row: past.without(run_id, time_s) for row, past in self.histories.items()})

    @cached_property
    def slower(self) -> tuple[bool | None, ...]:
        """True for each run that was an incident; ``None`` if it has too few rows to show that."""
        effects = map(self.before.effect, range(len(self.runs)))
        return tuple(None if effect is None else effect.is_incident for effect in effects)

    @cached_property
    def incidents(self) -> frozenset[str]:
        """The ids of the runs that were incidents."""
        wrong = (run for run, is_slower in zip(self.runs, self.slower, strict=True) if is_slower)
        return frozenset(point.run_id for run in wrong for point in run.points.values())

    def onset(self, period: Period) -> Since:
        """The onset of an incident, by the indices of its runs."""
        first = period.wrong[0]
        good = [run for run, is_slower in zip(self.runs[:first], self.slower, strict=False) if is_slower is False]
        return _cluster_onset(self.runs, good, first, len(period.wrong))

    @property
    def since(self) -> Since | None:
        """The onset of the incident that the newest run is, or is part of; ``None`` if it is none."""
        found = periods(self.slower, times_s=[run.time_s for run in self.runs])
        return self.onset(found[-1]) if found and found[-1].recovered is None else None

    @property
    def knows_drift(self) -> bool:
        """True if there are enough runs for a search for drift."""
        return len(self.before.effects) >= REFERENCE_JOBS + NEWEST

    @cached_property
    def drifting(self) -> ClusterDrifting | None:
        """The drift of all rows together, its start and the changes then; ``None`` if there is none."""
        runs = [self.runs[number] for number in self.before.effects]
        ratios = [math.exp(effect) for effect in self.before.effects.values()]
        found = drift(ratios)
        if found is None:
            return None
        _, onset = drift_onset(found, ratios, lambda run: _cluster_onset(runs, runs[:run], run, len(runs) - run))
        return ClusterDrifting(found, onset, len(runs[-1].points))

    @cached_property
    def taken(self) -> Mapping[str, float]:
        """The part of the cluster's effect that is subtracted from a row before a search for drift, by run."""
        return {self.runs[number].name: one for number, one in self.before.taken.items()}


def _cluster_onset(runs: Sequence[ClusterRun], good: Sequence[ClusterRun], first: int, count: int) -> Since:
    """The onset of a cluster's state, with the changes of most rows except nodes, see :func:`onset`."""
    seen: Counter[tuple[str, tuple[str, str]]] = Counter()
    points = runs[first].points
    for row, point in points.items():
        seen.update(changed([run.points[row] for run in good if row in run.points], point).items())
    changes = {name: one for (name, one), rows in seen.items() if 2 * rows > len(points) and name != "nodes"}
    changed_then = bool(changes) and good[-1] is runs[first - 1]
    return Since(runs[first].begin_s, count, changes=changes, changed_then=changed_then)


_DEVIATIONS = statistics.NormalDist().inv_cdf(0.975)

#: Days without a job after which a row or a node may be gone, and its last state is outdated.
GONE_DAYS = 30

#: Most runs before and since a change that are compared: older runs have less bearing on it.
COMPARED = 10


@dataclass(frozen=True)
class EnvironmentChange:
    """The runs of a row before and since a change of its environment."""

    #: The first run with it.
    since: Point
    #: The values before and since, by name.
    named: Mapping[str, tuple[str, str]]
    #: Speed since over that before, and its interval of 95 % for normal noise.
    ratio: float
    low: float
    high: float
    runs_before: int
    runs_since: int

    @property
    def is_beyond_noise(self) -> bool:
        """True if the interval excludes no effect."""
        return not self.low <= 1 <= self.high


def _with(facts: Sequence[Mapping[str, str]], runs: Iterable[int], values: Mapping[str, str]) -> list[int]:
    """The first of runs (indices), as long as they had these values; an unknown value may be the same."""
    had = takewhile(lambda run: all((facts[run].get(name) or old) == old for name, old in values.items()), runs)
    return list(islice(had, COMPARED))


def _change(
    before: Sequence[Point], after: Sequence[Point], named: Mapping[str, tuple[str, str]], noise: Noise
) -> EnvironmentChange:
    medians = [statistics.median(one.judged for one in runs) for runs in (after, before)]
    ratio = after[0].metric.direction.speed(*medians)
    wide = _DEVIATIONS * ratio_sd(noise, len(before), len(after))
    low, high = ratio * math.exp(-wide), ratio * math.exp(wide)
    return EnvironmentChange(after[0], named, ratio, low, high, len(before), len(after))


@dataclass(frozen=True)
class RowHistory:
    """The points of one experiment of a row on one cluster, the oldest first."""

    points: tuple[Point, ...] = ()
    #: The cluster's accepted figure: the runs that count begin with it.
    accepted: Accepted | None = None
    #: Runs that users have excluded.
    excluded: Collection[str] = frozenset()
    #: Nodes that make, or made, jobs of the cluster slow.
    slow: Collection[SlowNode] = ()
    #: The effect of the cluster on its runs; ``None`` if not adjusted.
    adjustment: ClusterAdjustment | None = field(default=None, compare=False, repr=False)

    @cached_property
    def runs(self) -> tuple[Point, ...]:
        """All runs that represent the row: neither unusual nor excluded."""
        return runs_of([point for point in self.points if point.run_id not in self.excluded])

    @cached_property
    def judged(self) -> tuple[Point, ...]:
        """The same runs with the figures of their verdicts: the median of several jobs."""
        return as_judged(self.runs, self.points)

    @cached_property
    def measured(self) -> tuple[Point, ...]:
        """All runs with the figures of their verdicts, including unusual ones; excluded ones are left out."""
        known = [point for point in self.points if point.run_id not in self.excluded]
        return as_judged(first_jobs(known), known)

    @cached_property
    def regressed(self) -> tuple[bool | None, ...]:
        """True for each of :attr:`runs` that regressed; ``None`` for one that shows nothing.

        That is an inconclusive run, and one that a slow node explains before the row became slow without it.
        """
        shown = {outcomes.INCONCLUSIVE.word: None, outcomes.REGRESSED.word: True}
        found = [shown.get(run.outcome, False) for run in self.runs]
        if not self.slow or not {True, False}.issubset(found):
            return tuple(found)
        usual = statistics.median(run.judged for run, bad in zip(self.judged, found, strict=True) if bad is False)
        direction, noise = self.judged[-1].metric.direction, self.noise() or PRIOR
        level = math.log(direction.cost(usual)) + _DEVIATIONS * noise.sigma
        for period in periods(found, GOOD_RUNS, [run.time_s for run in self.runs]):
            own = (run for run in period.wrong if found[run] and not self._is_by_node(self.judged[run], level))
            begin = period.wrong[0]
            first = next(own, begin)
            found[begin:first] = [None if one else one for one in found[begin:first]]
        return tuple(found)

    def _is_by_node(self, run: Point, level: float) -> bool:
        """True if a run would be below a level, a logarithm of cost, without the loss of its slow node."""
        return any(
            one.ran_in(run.nodes, run.time_s) and math.log(run.cost) + math.log1p(one.change) < level
            for one in self.slow
        )

    @property
    def since(self) -> Since | None:
        """The onset of the newest run's state: slow, as its alarm has it, or improved; ``None`` for another one."""
        words = [run.outcome for run in self.runs]
        is_slow = bool(words) and words[-1] in outcomes.SLOW
        alike = outcomes.SLOW if is_slow else {outcomes.IMPROVED.word}
        # A row without an alarm was inconclusive at most.
        of_alarm = periods(self.regressed, GOOD_RUNS, [run.time_s for run in self.runs]) if is_slow else ()
        found = (*periods([word in alike for word in words]), *of_alarm)
        return next((self.onset(one) for one in reversed(found) if one.recovered is None), None)

    def onset(self, period: Period) -> Since:
        """The onset of a state, by the indices of its runs."""
        incidents = frozenset() if self.adjustment is None else self.adjustment.together.incidents
        runs, first = self.judged, period.wrong[0]
        good = [run for run in runs[:first] if run.outcome not in outcomes.SLOW and run.run_id not in incidents]
        return onset(runs, good, first, len(period.wrong))

    @cached_property
    def counted(self) -> tuple[Point, ...]:
        """The runs that count: since a figure was accepted, without late arrivals for a complete reference."""
        if not self.points:
            return ()
        return _in_order_of_arrival(
            self.sound if self.accepted is None else self._sound(since(self.points, self.accepted))
        )

    @cached_property
    def sound(self) -> tuple[Point, ...]:
        """All runs without slow nodes: the loss by a slow node belongs to the node, not to the row."""
        return self._sound(self.points)

    def _sound(self, points: Sequence[Point]) -> tuple[Point, ...]:
        excluded, explained = self.excluded, self._explained
        return runs_of(
            [one for one in points if one.run_id not in excluded and (one.run_id, one.job_id) not in explained]
        )

    @cached_property
    def _explained(self) -> frozenset[tuple[str, str]]:
        """Jobs that ran with a slow node, by run and id."""
        return frozenset(
            (point.run_id, point.job_id)
            for one in self.slow
            for point in self.points
            if (point.run_id, point.job_id) in one.jobs
            or (point.added_s == math.inf and one.ran_in(point.nodes, point.time_s))
        )

    @cached_property
    def reference(self) -> tuple[Point, ...]:
        """The first runs that count and were not too slow; they never change once they are complete."""
        return _not_too_slow(self.counted)[:REFERENCE_JOBS]

    def noise(self, tolerance: float | None = None) -> Noise | None:
        """The noise between jobs, ``None`` without runs; with few runs it depends on the tolerance.

        It is that of the reference. While that is incomplete, runs before an accepted figure are added: their level
        differs, but not their noise.
        """
        if not self.points:
            return None
        runs = self.reference
        if missing := REFERENCE_JOBS - len(runs):
            known, begin_s = {run.run_id for run in runs}, runs[0].time_s if runs else math.inf
            before = [run for run in self.sound if run.run_id not in known and run.time_s <= begin_s]
            runs = (*_not_too_slow(before)[-missing:], *runs)
        if not runs:
            return None
        noise = noise_of([run.judged for run in runs], PRIOR if tolerance is None else prior_for(tolerance))
        level = level_of([run.judged for run in runs])
        if missing > 0 or level is None:
            return noise
        return replace(noise, level=OwnLevel(math.exp(level), tuple(run.judged for run in self.counted[-2:])))

    @property
    def previous_failed(self) -> tuple[float, ...]:
        """The figures of the jobs of the last run that counts if it regressed, else empty."""
        for run in self.counted[-1:]:
            if run.outcome == outcomes.REGRESSED.word:
                return tuple(point.judged for point in self.points if point.run_id == run.run_id)
        return ()

    @cached_property
    def drifting(self) -> Drifting | None:
        """The drift of the newest runs that count against the reference, adjusted for the cluster; else ``None``."""
        if len(self.points) < REFERENCE_JOBS + NEWEST:
            return None
        return drifting(self.counted, self.adjusted_costs if any(self._taken.values()) else None)

    @cached_property
    def adjusted_costs(self) -> tuple[float, ...]:
        """The cost of each run that counts, without the slowdown of the whole cluster."""
        taken = self._taken
        return tuple([run.cost * math.exp(-taken.get(run_key(run), 0.0)) for run in self.counted])

    @cached_property
    def _taken(self) -> Mapping[str, float]:
        return {} if self.adjustment is None else self.adjustment.taken

    @cached_property
    def changes(self) -> tuple[EnvironmentChange, ...]:
        """Changes of image and environment of the row with their effects, the oldest first."""
        runs = self.sound
        found = [(number, named) for number in range(1, len(runs)) if (named := changes_at(runs, number))]
        noise = self.noise()
        if not found or noise is None:
            return ()
        facts = ran_with(*runs)
        begins = [0, *(number for number, _ in found)]
        ends = [*(number for number, _ in found[1:]), len(runs)]
        changes = []
        for begin, (number, named), end in zip(begins, found, ends, strict=False):
            before = _with(facts, range(number - 1, begin - 1, -1), {name: old for name, (old, _) in named.items()})
            since = _with(facts, range(number, end), {name: new for name, (_, new) in named.items()})
            changes.append(_change([runs[one] for one in before], [runs[one] for one in since], named, noise))
        return tuple(changes)

    def without(self, run_id: str, until_s: float = math.inf, jobs: Iterable[Point] = ()) -> RowHistory:
        """The history without a run that continues and is in it already.

        Args:
            run_id: The run.
            until_s: End of the history.
            jobs: Jobs of the run: for a replayed one, the history has them already.
        """
        known = {(job.job_id, job.time_s) for job in jobs}
        points = [
            one
            for one in self.points
            if one.run_id != run_id and one.time_s <= until_s and (one.job_id, one.time_s) not in known
        ]
        return replace(self, points=tuple(points))

    def including_run(self, points: Iterable[Point]) -> RowHistory:
        """The history with the jobs of a run that is not in it; they come after all others."""
        return replace(self, points=(*self.points, *(replace(point, added_s=math.inf) for point in points)))


class ClusterSeries:
    """The runs of rows on one cluster, by their experiments; ``accepted`` has the cluster's figures by row."""

    def __init__(
        self,
        runs: Mapping[ExperimentKey, Sequence[Point]],
        excluded: Collection[str] = frozenset(),
        failures: Sequence[Failure] = (),
        accepted: Mapping[str, Accepted] | None = None,
        topology: Event | None = None,
        searched: Sequence[Record] = (),
    ) -> None:
        self.searched = searched
        self._by_row = grouped([(key.row, (key.experiment, points)) for key, points in runs.items()])
        self.runs = runs
        self.excluded = excluded
        #: The newest known switches or blocks.
        self.topology = topology
        #: All nodes of the cluster.
        self.nodes = self.nodes_of(runs, failures)
        #: Nodes and switches that make, or made, jobs of the cluster slow; the jobs of switches count for their rows.
        self.slow = self.nodes.slow
        self._accepted = accepted or {}
        of_rows: dict[str, RowHistory] = {}  # filled below: rows are adjusted for what all of them have in common
        #: The adjustment of rows for the cluster.
        self.adjustment = ClusterAdjustment(ClusterHistory(of_rows))
        #: The adjusted histories of the experiments of each row's newest run, by row, definition and experiment.
        self.newest: dict[tuple[str, str, str], RowHistory] = {}
        for row, lines in self._by_row.items():
            ends = [(_time(points[-1]), experiment, points[-1]) for experiment, points in lines if points]
            newest_run = max(ends, default=None, key=lambda one: one[:2])
            for _, experiment, point in ends:
                if newest_run is not None and point.run_id == newest_run[2].run_id:
                    past = self.adjusted(row, point.definition, experiment)
                    self.newest[row, point.definition, experiment] = of_rows[row] = past

    def nodes_of(self, runs: Mapping[ExperimentKey, Sequence[Point]], failures: Sequence[Failure] = ()) -> Nodes:
        """The nodes of the cluster, by some runs of it."""
        switches = None if self.topology is None else self.topology.body
        return Nodes(runs, self.excluded, failures, switches, self.searched)

    def past(self, row: str, definition: str, experiment: str, accepted: Accepted | None = None) -> RowHistory:
        """The history of a row: of its experiment, and of its definition, whose series may not name the experiment."""
        lines = [
            points
            for name, points in self._by_row.get(row, ())
            if (experiment and name == experiment) or any(point.definition == definition for point in points)
        ]
        points = lines[0] if len(lines) == 1 else sorted((one for line in lines for one in line), key=_time)
        slow = tuple(one for one in self.slow if not one.below)
        return RowHistory(tuple(points), accepted, self.excluded, slow)

    def adjusted(self, row: str, definition: str, experiment: str) -> RowHistory:
        """The same since the accepted figure of its definition, adjusted for the cluster."""
        if (known := self.newest.get((row, definition, experiment))) is not None:
            return known
        figure = self._accepted.get(row)
        figure = figure if figure is not None and figure.definition == definition else None
        return replace(self.past(row, definition, experiment, figure), adjustment=self.adjustment)

    def until(self, time_s: float) -> ClusterSeries:
        """The runs up to a time; the same object if there are no later ones."""
        if all(point.time_s <= time_s for points in self.runs.values() for point in points):
            return self
        runs = {key: [point for point in points if point.time_s <= time_s] for key, points in self.runs.items()}
        searched = self.searched
        return ClusterSeries(runs, self.excluded, accepted=self._accepted, topology=self.topology, searched=searched)


#: Accepted figures by row and cluster.
AllAccepted = Mapping[str, Mapping[str, Accepted]]


@collector_paused()  # it would take a third of the time
def series_of_cluster(
    history: History, cluster: str, since_s: float = 0.0, accepted: AllAccepted | None = None
) -> ClusterSeries:
    """The runs of a cluster from a time on; a HistoryError if the history did not answer.

    All of its rows are read, whichever are needed: the analysis of nodes uses the jobs of all.
    """
    events = history.events(cluster)
    excluded = frozenset(one.subject for one in events if one.kind == EXCLUDE)
    topology = next((one for one in reversed(events) if one.kind == TOPOLOGY), None)
    by_row = {row: of_row[cluster] for row, of_row in (accepted or {}).items() if cluster in of_row}
    points, failed = history.cluster_points(cluster, since_s), history.failures(cluster, since_s)
    is_searched = any(point.reason == Reason.SLOW_NODE.value for of_row in points.values() for point in of_row)
    searched = history.named_nodes(cluster, since_s) if is_searched else ()
    return ClusterSeries(points, excluded, failed, by_row, topology, searched)


def histories_of(
    series: Mapping[SeriesKey, str], read: Callable[[str], ClusterSeries]
) -> Mapping[SeriesKey, RowHistory]:
    """Row histories, adjusted for the cluster effect.

    Args:
        series: The experiment of each series, empty if the history may name it.
        read: Returns a cluster's runs.

    Raises:
        HistoryError: The history did not answer.
    """
    lines = {cluster: read(cluster) for cluster in dict.fromkeys(key.cluster for key in series)}
    return {key: lines[key.cluster].adjusted(key.row, key.definition, experiment) for key, experiment in series.items()}


def histories_of_records(
    history: History, records: Iterable[Record], read: Callable[[str], ClusterSeries] | None = None
) -> Mapping[SeriesKey, RowHistory]:
    """The histories of the rows of these records; a HistoryError if the history did not answer."""
    known = {key: record.row.experiment for record in records if (key := series_key(record)) is not None}
    return histories_of(known, read or partial(series_of_cluster, history))


def newest_histories(
    history: History, series: Iterable[SeriesKey], accepted: AllAccepted | None = None
) -> Mapping[SeriesKey, RowHistory]:
    """One history for each experiment, the one with the newest point of a row first."""
    found: dict[SeriesKey, RowHistory] = {}
    covered: set[SeriesKey] = set()
    read = partial(series_of_cluster, history, accepted=accepted)
    for key, past in histories_of(dict.fromkeys(series, ""), read).items():
        if key not in covered:
            found[key] = past
            covered |= {replace(key, definition=point.definition) for point in past.points}
    return found


def _time(point: Point) -> tuple[float, str, str]:
    return point.time_s, point.run_id, point.job_id


def _not_too_slow(runs: Sequence[Point]) -> tuple[Point, ...]:
    """Runs that were not too slow; all if every run was: the document then describes a faster cluster."""
    return tuple(run for run in runs if not run.is_too_slow) or tuple(runs)


def _in_order_of_arrival(runs: Sequence[Point]) -> tuple[Point, ...]:
    """The runs, without older ones that arrived after the reference was complete."""
    if len(runs) <= REFERENCE_JOBS:
        return tuple(runs)
    complete_s = sorted(run.added_s for run in runs)[REFERENCE_JOBS - 1]
    first = [run for run in runs if run.added_s <= complete_s][:REFERENCE_JOBS]
    end_s = first[-1].time_s
    return tuple(run for run in runs if run.added_s <= complete_s or run.time_s > end_s)


#: An event of the environment counts only if the value was the same in this many runs before.
_SAME_BEFORE = 3


@dataclass(frozen=True)
class Drifting:
    """A drift of a row: the difference of its newest runs from its first ones, its start, and the changes then."""

    drift: Drift
    #: The first run that differs from the first ones.
    first: Point
    onset: Since
    #: True if it is adjusted for the cluster, whose other rows may have drifted themselves.
    is_beside: bool = False


def runs_of(points: Sequence[Point]) -> tuple[Point, ...]:
    """The first job of each run, from a row's jobs in order of time, without unusual ones.

    Unusual are runs in which a canary showed that the cluster is not in its usual state, and implausible figures.

    Later jobs of a run ran because its first was slow, or share its hour: they carry less information than another run.
    """
    return first_jobs([point for point in points if point.reason not in UNUSUAL])


def first_jobs(points: Sequence[Point]) -> tuple[Point, ...]:
    """The first job of each run, from a row's jobs in order of time."""
    first: dict[str, Point] = {}
    for point in points:
        first.setdefault(point.run_id, point)
    return tuple(first.values())


def as_judged(runs: Sequence[Point], points: Sequence[Point]) -> tuple[Point, ...]:
    """Runs with the figures of their verdicts: the median of several jobs, with the ids and the nodes of all.

    Args:
        runs: The first jobs of runs, see :func:`runs_of`.
        points: All jobs of these runs.
    """
    if len(runs) == len(points):
        return tuple(runs)
    of_run = grouped([(point.run_id, point) for point in points])
    return tuple(_median(run, of_run[run.run_id]) for run in runs)


def _median(run: Point, jobs: Sequence[Point]) -> Point:
    if len(jobs) == 1:
        return run
    return replace(
        run,
        judged=statistics.median(job.judged for job in jobs),
        job_id=", ".join(job.job_id for job in jobs),
        nodes=", ".join(dict.fromkeys(job.nodes for job in jobs if job.nodes)),
        jobs=len(jobs),
    )


def since(points: Sequence[Point], accepted: Accepted | None) -> tuple[Point, ...]:
    """The jobs of a row that count, from its jobs in order of time: since the accepted ones or their day, else all."""
    if accepted is None:
        return tuple(points)
    jobs = {job.strip() for job in accepted.job_ids.split(",")}
    made_of = (number for number, point in enumerate(points) if point.job_id in jobs)
    day_s = datetime.fromisoformat(f"{accepted.date}T00:00:00+00:00").timestamp()
    later = (number for number, point in enumerate(points) if point.time_s >= day_s)
    begin = next(made_of, next(later, len(points)))
    # An accepted figure is neither too slow nor implausible.
    return tuple(
        replace(point, outcome=outcomes.PASSED.word, reason="") if point.job_id in jobs else point
        for point in points[begin:]
    )


def drifting(runs: Sequence[Point], adjusted_costs: Sequence[float] | None = None) -> Drifting | None:
    """The drift of the newest runs that count, its start and the changes then; ``None`` if there is none.

    Args:
        runs: The runs that count.
        adjusted_costs: Their costs adjusted for the cluster; ``None`` for the measured ones.
    """
    costs = [run.cost for run in runs] if adjusted_costs is None else adjusted_costs
    found = drift(costs)
    if found is None:
        return None
    first, since = drift_onset(found, costs, lambda run: onset(runs, runs[:run], run, len(runs) - run))
    return Drifting(found, runs[first], since, adjusted_costs is not None)


def changes_at(points: Sequence[Point], run: int) -> dict[str, tuple[str, str]]:
    """Changes of the environment in a run (an index), by name: the values before and since.

    A change counts if the value was the same for some runs before, or if it reverts such a change: values that differ
    in every run, as nodes do, are no evidence. An unknown value may be the same as before.
    """
    runs = points[max(0, run - 2 * _SAME_BEFORE + 1) : run + 1]
    facts = ran_with(*runs)
    by_name = {name: [of_run.get(name, "") for of_run in facts] for name in facts[-1]}
    found = {name: _changed(values) or _reverted(values) for name, values in by_name.items()}
    return {name: change for name, change in found.items() if change is not None}


def _changed(values: Sequence[str]) -> tuple[str, str] | None:
    """The value that was the same for some runs, and the newest one, if they differ."""
    *before, now = values[-_SAME_BEFORE - 1 :]
    known = len(set(before)) == 1 and "" not in {before[0], now}
    return (before[0], now) if known and now != before[0] else None


def _reverted(values: Sequence[str]) -> tuple[str, str] | None:
    """The value before the newest one, and the newest, if it reverts a change."""
    *before, now = values
    runs = len(list(takewhile(lambda value: value == before[-1], reversed(before))))
    return (before[-1], now) if runs and _changed(before[: len(before) - runs + 1]) == (now, before[-1]) else None
