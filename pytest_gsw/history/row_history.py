"""The past of a row: which of its runs count, what they are held against, and by how much they differ.

Sessions, the report and every command ask this, so that all of them say the same of a row.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice, takewhile
from operator import itemgetter

from pytest_gsw.history.model import ExperimentKey, Point, SeriesKey, run_key, series_key
from pytest_gsw.history.store import EXCLUDE, Failure, History
from pytest_gsw.results import outcomes
from pytest_gsw.results.node_lists import NodeSets, compressed, expand
from pytest_gsw.results.record import Record, ran_with
from pytest_gsw.results.run_id import begin_of
from pytest_gsw.stats.cluster_effect import ClusterReference, CurrentRun, level_of
from pytest_gsw.stats.drift import NEWEST, Drift, drift
from pytest_gsw.stats.figures import SECONDS_PER_DAY
from pytest_gsw.stats.noise import PRIOR, REFERENCE_JOBS, Noise, noise_of, prior_for, ratio_sd
from pytest_gsw.stats.slow_nodes import JobEnd, JobTime, SearchResult, SlowNodeGroup, bits, failures, find
from pytest_gsw.stats.verdict import UNUSUAL
from pytest_gsw.tables.model import Accepted

# -- Nodes that make a cluster's jobs slow, by name and job; see :mod:`pytest_gsw.stats.slow_nodes` --


#: The newest days, that failures are counted in: a node that was repaired is not blamed for ever.
FAILURES_DAYS = 90


@dataclass(frozen=True)
class SlowNode:
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
class KnownGoodNodes:
    """What the newest runs of a cluster say of its nodes, but for those that are slow."""

    #: Nodes that are known to be sound.
    cleared: tuple[str, ...] = ()
    #: Nodes that their jobs do not tell of.
    untold: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailingNode:
    """How many jobs of a node the infrastructure failed lately, or of several nodes one of which does it."""

    nodes: tuple[str, ...]
    failed: int
    of: int
    #: The share that fails of the same rows, in the same runs, on all nodes of the cluster.
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
        runs: Mapping[ExperimentKey, Sequence[Point]],
        excluded: Collection[str] = (),
        failures: Sequence[Failure] = (),
    ) -> None:
        """Number nodes and runs.

        Args:
            runs: All jobs of the cluster that were measured, by row and experiment.
            excluded: The runs that do not count.
            failures: All jobs of it that the infrastructure failed.
        """
        #: The rows of jobs.
        self._keys = tuple(runs)
        self._failures = [one for one in failures if one.run_id not in excluded]
        known = [
            (point.time_s, row, point)
            for row, points in enumerate(runs.values())
            for point in points
            if point.nodes and 0 < point.judged_s < math.inf and point.run_id not in excluded
        ]
        known.sort(key=itemgetter(0, 1))
        numbers: dict[str, int] = {}
        counted = [(numbers.setdefault(run_key(point), len(numbers)), row, point) for _, row, point in known]
        # A run may go on while the next one begins: its jobs are of its own run all the same.
        counted.sort(key=itemgetter(0))
        sets = NodeSets()
        self._jobs = [JobTime(run, row, math.log(point.judged_s), sets.of(point.nodes)) for run, row, point in counted]
        self._failed = [sets.of(one.nodes) for one in self._failures]
        self._names, self._points = tuple(sets.bits), [point for *_, point in counted]

    @cached_property
    def _found(self) -> SearchResult:
        return find(self._jobs)

    @cached_property
    def slow(self) -> tuple[SlowNode, ...]:
        """Whoever was slow, those that still are first."""
        found = [_named(one, self._names, self._points) for one in self._found.culprits]
        there = (one for one in found if one.accusing)
        return tuple(sorted(there, key=lambda one: (one.mended, one.change, one.nodes)))

    @cached_property
    def sound(self) -> KnownGoodNodes:
        """What is known of the others."""
        return KnownGoodNodes(self._named(self._found.cleared), self._named(self._found.untold))

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
    def failures(self) -> tuple[FailingNode, ...]:
        """Of each node of which a job failed lately; those that fail more often than by chance are first."""
        if not self.failed_jobs:
            return ()
        since_s = self._lately_s
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
        names = (tuple(sorted(self._names[node] for node in one.nodes)) for one in found)
        return tuple(FailingNode(name, x.failed, x.of, x.usual, x.named) for name, x in zip(names, found, strict=True))

    @property
    def failing(self) -> tuple[FailingNode, ...]:
        """The nodes of which more jobs fail than by chance."""
        return tuple(one for one in self.failures if one.named)

    @property
    def all_told(self) -> bool:
        """Whether nodes have run in the newest runs, and of each it is known whether it is slow."""
        return bool(self._jobs) and not self.sound.untold


def name_of(nodes: Sequence[str]) -> str:
    """``pool0-0017``, or ``one of pool0-[0017-0018]``."""
    return nodes[0] if len(nodes) == 1 else f"one of {compressed(nodes)}"


def _named(one: SlowNodeGroup, names: Sequence[str], points: Sequence[Point]) -> SlowNode:
    return SlowNode(
        tuple(sorted(names[node] for node in one.nodes)),
        math.exp(-one.excess) - 1,
        tuple(points[index] for index in one.accusing),
        tuple(points[index] for index in one.clearing),
        one.mended,
    )


# -- The runs of a cluster's rows together: by how much each was slower for all, since when, and what changed then --


@dataclass(frozen=True)
class ClusterRun:
    """One run of a cluster: what its rows ran first."""

    #: The run, or the day of imports.
    name: str
    #: When its first job ended, seconds since the epoch.
    time_s: float
    #: By row, its first job.
    points: Mapping[str, Point]

    @property
    def begin_s(self) -> float:
        """When it began."""
        return begin_of(self.name, self.time_s)


@dataclass(frozen=True)
class ClusterDrifting:
    """That the newest runs of a cluster are slower than its first ones for its rows together."""

    drift: Drift
    #: The first run that is not like the first ones.
    since: ClusterRun
    #: By name, what the environment of most rows was before that run, or one that it may be as well, and is since.
    changes: Mapping[str, tuple[str, str]]
    #: How many rows the newest run had.
    rows: int


@dataclass(frozen=True)
class ClusterAdjustment:
    """What the rows of a cluster together say to each of them."""

    together: ClusterHistory
    #: What they say of a run that is not known to them yet, by its name.
    current_run: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def taken(self) -> Mapping[str, float]:
        """By the name of each run, what is taken from a row before it is asked whether it drifts."""
        current_run = {name: self.together.before.taken_in_run(effect) for name, effect in self.current_run.items()}
        return {**self.together.taken, **current_run}


@dataclass(frozen=True)
class ClusterHistory:
    """The runs of the rows of one cluster, by the past of each row."""

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
        """What these runs have in common."""
        levels = {row: level_of([one.judged_s for one in past.reference]) for row, past in self.histories.items()}
        seconds = [{row: point.judged_s for row, point in run.points.items()} for run in self.runs]
        slow = [{row for row, point in run.points.items() if point.is_too_slow} for run in self.runs]
        return ClusterReference(seconds, {row: level for row, level in levels.items() if level is not None}, slow)

    def current_run(self, first_s: Mapping[str, float], missing: int = 0) -> CurrentRun:
        """A run that is not among these.

        Args:
            first_s: The seconds of the first job of each row whose first job has ended.
            missing: How many rows with a level have a first job that may still be measured.
        """
        levels = self.before.levels
        over = {row: math.log(seconds) - levels[row] for row, seconds in first_s.items() if row in levels}
        return CurrentRun(self.before, over, missing)

    def including_run(self, points: Mapping[str, Point]) -> ClusterHistory:
        """The same with a run that is not among these, by the first job of each row."""
        return ClusterHistory(
            {row: past.including_run([points[row]]) if row in points else past for row, past in self.histories.items()}
        )

    def until(self, time_s: float, run_id: str) -> ClusterHistory:
        """The runs up to a time, without a run that is told by itself."""
        return ClusterHistory({row: past.without(run_id, time_s) for row, past in self.histories.items()})

    def since(self) -> ClusterRun | None:
        """The first of the newest runs all of which were incidents, ``None`` where the last one was none."""
        first = None
        for number in reversed(range(len(self.runs))):
            effect = self.before.effect(number)
            if effect is not None and effect.is_incident:
                first = self.runs[number]
            elif effect is not None:
                break  # a run of few rows says nothing
        return first

    @property
    def knows_drift(self) -> bool:
        """Whether there are enough runs to ask whether the newest are slower than the first."""
        return len(self.before.effects) >= REFERENCE_JOBS + NEWEST

    @cached_property
    def drifting(self) -> ClusterDrifting | None:
        """Whether the newest runs are slower than the first for all rows, since when, and what changed then."""
        numbers = list(self.before.effects)
        ratios = [math.exp(self.before.effects[number]) for number in numbers]
        found = drift(ratios)
        if found is None:
            return None
        about = numbers[max(0, found.first_suspect - ABOUT) : found.first_suspect + ABOUT + 1]
        changes = self.changed(*(self.runs[number] for number in about))
        newest = self.runs[numbers[-1]]
        return ClusterDrifting(found, self.runs[numbers[found.first_suspect]], changes, len(newest.points))

    def changed(self, *runs: ClusterRun) -> Mapping[str, tuple[str, str]]:
        """What of image and environment changed in runs under most of their rows, as it was and is since."""
        return first_to_last(map(self._changed_at, runs))

    def _changed_at(self, run: ClusterRun) -> Mapping[str, tuple[str, str]]:
        rows = [(self.histories[row].counted, point) for row, point in run.points.items()]
        return _of_most([changes_at(points, points.index(point)) for points, point in rows], len(rows))

    @cached_property
    def taken(self) -> Mapping[str, float]:
        """By the name of each run, what is taken from a row before it is asked whether it drifts."""
        return {self.runs[number].name: one for number, one in self.before.taken.items()}


def _of_most(changes: Iterable[Mapping[str, tuple[str, str]]], rows: int) -> dict[str, tuple[str, str]]:
    seen = Counter((name, change) for each in changes for name, change in each.items() if name != "nodes")
    return {name: change for (name, change), count in seen.items() if 2 * count > rows}


_DEVIATIONS = statistics.NormalDist().inv_cdf(0.975)

#: After so many days without a job on it a row or a node may be gone, and what was known of it is of long ago.
GONE_DAYS = 30

#: Runs before and since a change that are compared, at most: what was long before it says less of it.
COMPARED = 10


@dataclass(frozen=True)
class Change:
    """The runs of a row before and since something changed under it."""

    #: The first run with it.
    since: Point
    #: By name, what was before and is since.
    named: Mapping[str, tuple[str, str]]
    #: Throughput since over that before, and the interval that holds it with 95 %, of normal noise.
    ratio: float
    low: float
    high: float
    runs_before: int
    runs_since: int

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the interval excludes that nothing came of it."""
        return not self.low <= 1 <= self.high


def _with(facts: Sequence[Mapping[str, str]], runs: Iterable[int], values: Mapping[str, str]) -> list[int]:
    """The first of runs (indices), as long as they had these values; what one does not know it may have had."""
    had = takewhile(lambda run: all((facts[run].get(name) or old) == old for name, old in values.items()), runs)
    return list(islice(had, COMPARED))


def _change(
    before: Sequence[Point], after: Sequence[Point], named: Mapping[str, tuple[str, str]], noise: Noise
) -> Change:
    ratio = statistics.median(one.judged_s for one in before) / statistics.median(one.judged_s for one in after)
    wide = _DEVIATIONS * ratio_sd(noise, len(before), len(after))
    low, high = ratio * math.exp(-wide), ratio * math.exp(wide)
    return Change(after[0], named, ratio, low, high, len(before), len(after))


@dataclass(frozen=True)
class RowHistory:
    """The points of one experiment of a row on one cluster, the oldest first."""

    points: tuple[Point, ...] = ()
    #: What the cluster has accepted: the runs that count begin with that.
    accepted: Accepted | None = None
    #: Runs that somebody has excluded.
    excluded: Collection[str] = frozenset()
    #: Nodes that make, or made, jobs of the cluster slow.
    slow: Collection[SlowNode] = ()
    #: All nodes of the cluster; ``None`` where nobody has looked at them.
    nodes: Nodes | None = field(default=None, compare=False, repr=False)
    #: What the other rows of the cluster say of its runs, where they are asked.
    beside: ClusterAdjustment | None = field(default=None, compare=False, repr=False)

    @cached_property
    def runs(self) -> tuple[Point, ...]:
        """All runs that say something of the row: neither unusual nor excluded."""
        return runs_of([point for point in self.points if point.run_id not in self.excluded])

    @cached_property
    def judged(self) -> tuple[Point, ...]:
        """The same runs, each as its run was judged: of several jobs the median."""
        return as_judged(self.runs, self.points)

    @cached_property
    def measured(self) -> tuple[Point, ...]:
        """All runs as they were judged, those that are unusual, too; what is excluded is left out."""
        known = [point for point in self.points if point.run_id not in self.excluded]
        return as_judged(first_jobs(known), known)

    @cached_property
    def counted(self) -> tuple[Point, ...]:
        """The runs that count: since a figure was accepted, and none that came late to a complete reference."""
        if not self.points:
            return ()
        return _as_they_came(self.sound if self.accepted is None else self._sound(since(self.points, self.accepted)))

    @cached_property
    def sound(self) -> tuple[Point, ...]:
        """All runs of the row itself: what a slow node costs is the node's, whatever row it is met by."""
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
        """The first runs that count and were not too slow, which never change once they are complete."""
        return _not_too_slow(self.counted)[:REFERENCE_JOBS]

    def noise(self, tolerance: float | None = None) -> Noise | None:
        """By how much jobs differ, ``None`` where no run is known; with few runs as much as the tolerance says.

        It is that of the reference; while that is not complete, runs before a figure was accepted fill it up: the
        level is another one since then, and what jobs differ by is not.
        """
        if not self.points:
            return None
        runs = self.reference
        if missing := REFERENCE_JOBS - len(runs):
            known, begin_s = {run.run_id for run in runs}, _begin_s(runs)
            before = [run for run in self.sound if run.run_id not in known and run.time_s <= begin_s]
            runs = (*_not_too_slow(before)[-missing:], *runs)
        prior = PRIOR if tolerance is None else prior_for(tolerance)
        return noise_of([run.judged_s for run in runs], prior) if runs else None

    @property
    def previous_failed_seconds(self) -> tuple[float, ...]:
        """Seconds of each job of the newest run that counts, where the row regressed then."""
        for run in self.counted[-1:]:
            if run.outcome == outcomes.REGRESSED.word:
                return tuple(point.judged_s for point in self.points if point.run_id == run.run_id)
        return ()

    @cached_property
    def drifting(self) -> Drifting | None:
        """Whether the newest runs that count are slower than the reference, by what is the row's own of them."""
        if len(self.points) < REFERENCE_JOBS + NEWEST:
            return None
        return drifting(self.counted, self.adjusted_seconds if any(self._taken.values()) else None)

    @cached_property
    def adjusted_seconds(self) -> tuple[float, ...]:
        """The seconds of each run that counts, without what the cluster has gone slower as a whole."""
        return tuple(run.judged_s * math.exp(-self._taken.get(run_key(run), 0.0)) for run in self.counted)

    @cached_property
    def _taken(self) -> Mapping[str, float]:
        return {} if self.beside is None else self.beside.taken

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What of image and environment changed under the row, the oldest first, and what came of it."""
        runs = self.sound
        found = []
        for number in range(1, len(runs)):
            named = {name: change for name, change in changes_at(runs, number).items() if name != "nodes"}
            if named:
                found.append((number, named))
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
        """The past of a run that is in the history itself, because it goes on.

        Args:
            run_id: The run.
            until_s: The time at which the past is asked for.
            jobs: Those of the run: of one that is replayed, the history has the jobs already.
        """
        known = {(job.job_id, job.time_s) for job in jobs}
        points = [
            one
            for one in self.points
            if one.run_id != run_id and one.time_s <= until_s and (one.job_id, one.time_s) not in known
        ]
        return replace(self, points=tuple(points))

    def including_run(self, points: Iterable[Point]) -> RowHistory:
        """The past with the jobs of a run that is not in it; they come after all others."""
        return replace(self, points=(*self.points, *(replace(point, added_s=math.inf) for point in points)))


class ClusterSeries:
    """The runs of rows on one cluster, by the experiments that they are of."""

    def __init__(
        self,
        runs: Mapping[ExperimentKey, Sequence[Point]],
        excluded: Collection[str] = frozenset(),
        nodes: Nodes | None = None,
    ) -> None:
        self._by_row: dict[str, list[tuple[str, Sequence[Point]]]] = {}
        self.runs = runs
        self.excluded = excluded
        #: All nodes of the cluster; ``None`` where nobody has looked at them.
        self.nodes = nodes
        #: Nodes that make, or made, jobs of the cluster slow.
        self.slow: tuple[SlowNode, ...] = () if nodes is None else nodes.slow
        for key, points in runs.items():
            self._by_row.setdefault(key.row, []).append((key.experiment, points))

    def past(self, row: str, definition: str, experiment: str, accepted: Accepted | None = None) -> RowHistory:
        """The past of a row: of its experiment, and of its definition, whose series may not say of which that is."""
        lines = [
            points
            for name, points in self._by_row.get(row, ())
            if (experiment and name == experiment) or any(point.definition == definition for point in points)
        ]
        points = lines[0] if len(lines) == 1 else sorted((one for line in lines for one in line), key=_time)
        return RowHistory(tuple(points), accepted, self.excluded, self.slow, self.nodes)

    def newest(self, accepted: Mapping[str, Accepted]) -> Iterator[tuple[str, str, RowHistory]]:
        """Of each row the experiments that its newest run was of, each with its past; by row, what was accepted."""
        for row, lines in self._by_row.items():
            ends = [(_time(points[-1]), experiment, points[-1]) for experiment, points in lines if points]
            newest_run = max(ends, default=None, key=lambda one: one[:2])
            for _, experiment, point in ends:
                if newest_run is not None and point.run_id == newest_run[2].run_id:
                    figure = _of_definition(accepted.get(row), point.definition)
                    yield row, experiment, self.past(row, point.definition, experiment, figure)


def _of_definition(accepted: Accepted | None, definition: str) -> Accepted | None:
    """An accepted figure, but not under another definition: it is a figure of other runs."""
    return accepted if accepted is not None and accepted.definition == definition else None


def series_of_cluster(history: History, cluster: str, since_s: float = 0.0) -> ClusterSeries:
    """The runs of a cluster from a time on; a HistoryError where the history did not answer.

    All of its rows are read, whichever are asked for: nodes are told by the jobs of all.
    """
    excluded = frozenset(one.subject for one in history.events(cluster, EXCLUDE))
    runs = history.cluster_points(cluster, since_s=since_s)
    return ClusterSeries(runs, excluded, Nodes(runs, excluded, history.failures(cluster, since_s)))


def histories_of(
    history: History,
    series: Mapping[SeriesKey, str],
    accepted: Mapping[str, Mapping[str, Accepted]] | None = None,
    read: Callable[[str], ClusterSeries] | None = None,
) -> Mapping[SeriesKey, RowHistory]:
    """The pasts of series, each beside the other rows of its cluster.

    Args:
        history: Where they are.
        series: The experiment of each, which is empty where the history itself may say it.
        accepted: By row and cluster, what clusters have accepted: the runs that count begin with that.
        read: What reads a cluster's runs, where they have been read already; else :func:`series_of_cluster`.

    Raises:
        HistoryError: The history did not answer.
    """
    histories: dict[SeriesKey, RowHistory] = {}
    for cluster in dict.fromkeys(key.cluster for key in series):
        lines = series_of_cluster(history, cluster) if read is None else read(cluster)
        figures = {row: of_row[cluster] for row, of_row in (accepted or {}).items() if cluster in of_row}
        beside = ClusterAdjustment(ClusterHistory({row: past for row, _, past in lines.newest(figures)}))
        for key, experiment in series.items():
            if key.cluster == cluster:
                figure = _of_definition(figures.get(key.row), key.definition)
                past = lines.past(key.row, key.definition, experiment, figure)
                histories[key] = replace(past, beside=beside)
    return {key: histories[key] for key in series}


def histories_of_records(
    history: History,
    records: Iterable[Record],
    accepted: Mapping[str, Mapping[str, Accepted]] | None = None,
    read: Callable[[str], ClusterSeries] | None = None,
) -> Mapping[SeriesKey, RowHistory]:
    """The pasts of the rows that these are records of; a HistoryError where the history did not answer."""
    known = {key: record.row.experiment for record in records if (key := series_key(record)) is not None}
    return histories_of(history, known, accepted, read) if known else {}


def newest_histories(
    history: History, series: Iterable[SeriesKey], accepted: Mapping[str, Mapping[str, Accepted]] | None = None
) -> Mapping[SeriesKey, RowHistory]:
    """Of series, that with the newest point of a row first, one past for each experiment."""
    found: dict[SeriesKey, RowHistory] = {}
    covered: set[SeriesKey] = set()
    for key, past in histories_of(history, dict.fromkeys(series, ""), accepted).items():
        if key not in covered:
            found[key] = past
            covered |= {replace(key, definition=point.definition) for point in past.points}
    return found


def _time(point: Point) -> tuple[float, str, str]:
    return point.time_s, point.run_id, point.job_id


def _not_too_slow(runs: Sequence[Point]) -> tuple[Point, ...]:
    """Runs without those that were too slow; all where none was fast enough: the document is of a faster cluster."""
    return tuple(run for run in runs if not run.is_too_slow) or tuple(runs)


def _begin_s(runs: Sequence[Point]) -> float:
    return runs[0].time_s if runs else math.inf


def _as_they_came(runs: Sequence[Point]) -> tuple[Point, ...]:
    """The runs, without those of before the end of a reference that was complete when they came."""
    if len(runs) <= REFERENCE_JOBS:
        return tuple(runs)
    complete_s = sorted(run.added_s for run in runs)[REFERENCE_JOBS - 1]
    first = [run for run in runs if run.added_s <= complete_s][:REFERENCE_JOBS]
    end_s = first[-1].time_s
    return tuple(run for run in runs if run.added_s <= complete_s or run.time_s > end_s)


#: A fact of the environment has changed where it was the same for so many runs before.
_SAME_BEFORE = 3

#: Runs to either side of the first suspect one in which what changed may be the reason: it is seldom the very run.
ABOUT = 5


@dataclass(frozen=True)
class Drifting:
    """That the newest runs of a row differ from its first ones, since when, and what changed then."""

    drift: Drift
    #: The first run that is not like the first ones.
    since: Point
    #: By name, what the environment was before that run, or one that it may be as well, and is since.
    changes: Mapping[str, tuple[str, str]]
    #: Whether that is beside the other rows of the cluster, which may have drifted themselves.
    is_beside: bool = False


def runs_of(points: Sequence[Point]) -> tuple[Point, ...]:
    """The first job of each run, of a row's jobs from the oldest on, without runs that say nothing of the row.

    In those a canary said that the cluster was not in its usual state, or what was measured is not believed.

    Further jobs of a run ran because its first was slow, or share its hour: they say less than a run of their own.
    """
    return first_jobs([point for point in points if point.reason not in UNUSUAL])


def first_jobs(points: Sequence[Point]) -> tuple[Point, ...]:
    """The first job of each run, of a row's jobs from the oldest on."""
    first: dict[str, Point] = {}
    for point in points:
        first.setdefault(point.run_id, point)
    return tuple(first.values())


def as_judged(runs: Sequence[Point], points: Sequence[Point]) -> tuple[Point, ...]:
    """Runs as their runs were judged: of several jobs the median, with the ids and the nodes of all.

    Args:
        runs: The first jobs of runs, see :func:`runs_of`.
        points: All jobs of these runs.
    """
    of_run: dict[str, list[Point]] = {}
    for point in points:
        of_run.setdefault(point.run_id, []).append(point)
    return tuple(_median(run, of_run[run.run_id]) for run in runs)


def _median(run: Point, jobs: Sequence[Point]) -> Point:
    if len(jobs) == 1:
        return run
    return replace(
        run,
        judged_s=statistics.median(job.judged_s for job in jobs),
        job_id=", ".join(job.job_id for job in jobs),
        nodes=", ".join(dict.fromkeys(job.nodes for job in jobs if job.nodes)),
        jobs=len(jobs),
    )


def since(points: Sequence[Point], accepted: Accepted | None) -> tuple[Point, ...]:
    """Of a row's jobs, from the oldest on, those that count: from the accepted ones or their day on, else all."""
    if accepted is None:
        return tuple(points)
    jobs = {job.strip() for job in accepted.job_ids.split(",")}
    made_of = (number for number, point in enumerate(points) if point.job_id in jobs)
    day_s = datetime.fromisoformat(f"{accepted.date}T00:00:00+00:00").timestamp()
    later = (number for number, point in enumerate(points) if point.time_s >= day_s)
    begin = next(made_of, next(later, len(points)))
    # What somebody has accepted is neither too slow nor too good to be true.
    return tuple(
        replace(point, outcome=outcomes.PASSED.word, reason="") if point.job_id in jobs else point
        for point in points[begin:]
    )


def drifting(runs: Sequence[Point], adjusted_seconds: Sequence[float] | None = None) -> Drifting | None:
    """Whether the newest runs that count are slower than the first, since when, and what changed then.

    Args:
        runs: Those that count.
        adjusted_seconds: What of the seconds of each is the row's own, where the cluster has a part in them.
    """
    found = drift([run.judged_s for run in runs] if adjusted_seconds is None else adjusted_seconds)
    if found is None:
        return None
    changes = changes_between(runs, found.first_suspect - ABOUT, found.first_suspect + ABOUT)
    return Drifting(found, runs[found.first_suspect], changes, adjusted_seconds is not None)


def changes_between(points: Sequence[Point], first: int, last: int) -> dict[str, tuple[str, str]]:
    """What changed from a run to a later one, both included where they are there, as before the first and since."""
    return first_to_last(changes_at(points, run) for run in range(max(0, first), min(last + 1, len(points))))


def first_to_last(found: Iterable[Mapping[str, tuple[str, str]]]) -> dict[str, tuple[str, str]]:
    """Changes of one run after the other, as before the first one and since; what was taken back is none."""
    changes: dict[str, tuple[str, str]] = {}
    for named in found:
        for name, (before, now) in named.items():
            changes[name] = (changes[name][0] if name in changes else before, now)
    return {name: (before, now) for name, (before, now) in changes.items() if before != now}


def changes_at(points: Sequence[Point], run: int) -> dict[str, tuple[str, str]]:
    """What of the environment changed in a run (an index), by name, as it was before and is since.

    Only what had been the same for some runs, and what is taken back before it has: what changes every run, as
    nodes do, says nothing. What one of the runs does not know may be what it was.
    """
    runs = points[max(0, run - 2 * _SAME_BEFORE + 1) : run + 1]
    facts = ran_with(*runs)
    by_name = {name: [of_run.get(name, "") for of_run in facts] for name in facts[-1]}
    found = {name: _changed(values) or _taken_back(values) for name, values in by_name.items()}
    found["nodes"] = _changed([point.nodes for point in runs])  # nobody takes them back: the scheduler chooses them
    return {name: change for name, change in found.items() if change is not None}


def _changed(values: Sequence[str]) -> tuple[str, str] | None:
    """The value that had been the same for some runs, and the newest one, where they differ."""
    *before, now = values[-_SAME_BEFORE - 1 :]
    known = len(set(before)) == 1 and "" not in {before[0], now}
    return (before[0], now) if known and now != before[0] else None


def _taken_back(values: Sequence[str]) -> tuple[str, str] | None:
    """The value before the newest one, and the newest, where that is what it had been changed from."""
    *before, now = values
    runs = len(list(takewhile(lambda value: value == before[-1], reversed(before))))
    return (before[-1], now) if runs and _changed(before[: len(before) - runs + 1]) == (now, before[-1]) else None
