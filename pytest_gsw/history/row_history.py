"""The history of a row: the runs that count, their reference, and the noise between them.

Sessions, the report and every command use this module, and therefore agree on a row.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from pytest_gsw.common.groups import grouped
from pytest_gsw.history.environment_changes import DEVIATIONS, EnvironmentChange, environment_changes
from pytest_gsw.history.model import Point, run_key
from pytest_gsw.history.node_search import SlowNode
from pytest_gsw.history.since import GOOD_RUNS, Period, Since, changed, drift_onset, onset, periods
from pytest_gsw.results import outcomes, runs_directory
from pytest_gsw.stats.cluster_effect import ClusterReference, CurrentRun, level_of
from pytest_gsw.stats.drift import NEWEST, Drift, drift
from pytest_gsw.stats.noise import PRIOR, REFERENCE_JOBS, Noise, OwnLevel, noise_of, prior_for
from pytest_gsw.stats.verdict import UNUSUAL
from pytest_gsw.tables.model import Accepted


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
        return runs_directory.begin_of(self.name, self.time_s)


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
        runs = (ClusterRun(name, min(job.time_s for job in points.values()), points) for name, points in found.items())
        return tuple(sorted(runs, key=lambda run: (run.time_s, run.name)))

    @cached_property
    def before(self) -> ClusterReference:
        """The reference for the effect of a run: levels of rows, and the noise that their runs have in common."""
        levels = {row: level_of([job.cost for job in past.reference]) for row, past in self.histories.items()}
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
        episodes = periods(self.slower, times_s=[run.time_s for run in self.runs])
        return self.onset(episodes[-1]) if episodes and episodes[-1].recovered is None else None

    @property
    def knows_drift(self) -> bool:
        """True if there are enough runs for a search for drift."""
        return len(self.before.effects) >= REFERENCE_JOBS + NEWEST

    @cached_property
    def drifting(self) -> ClusterDrifting | None:
        """The drift of all rows together, its start and the changes then; ``None`` if there is none."""
        runs = [self.runs[number] for number in self.before.effects]
        ratios = [math.exp(effect) for effect in self.before.effects.values()]
        change = drift(ratios)
        if change is None:
            return None
        _, onset = drift_onset(change, ratios, lambda run: _cluster_onset(runs, runs[:run], run, len(runs) - run))
        return ClusterDrifting(change, onset, len(runs[-1].points))

    @cached_property
    def taken(self) -> Mapping[str, float]:
        """The part of the cluster's effect that is subtracted from a row before a search for drift, by run."""
        return {self.runs[number].name: part for number, part in self.before.taken.items()}


def _cluster_onset(runs: Sequence[ClusterRun], good: Sequence[ClusterRun], first: int, count: int) -> Since:
    """The onset of a cluster's state, with the changes of most rows except nodes, see :func:`onset`."""
    seen: Counter[tuple[str, tuple[str, str]]] = Counter()
    points = runs[first].points
    for row, point in points.items():
        seen.update(changed([run.points[row] for run in good if row in run.points], point).items())
    changes = {name: change for (name, change), rows in seen.items() if 2 * rows > len(points) and name != "nodes"}
    changed_then = bool(changes) and good[-1] is runs[first - 1]
    return Since(runs[first].begin_s, count, changes=changes, changed_then=changed_then)


#: Days without a job after which a row or a node may be gone, and its last state is outdated.
GONE_DAYS = 30


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
        states = [shown.get(run.outcome, False) for run in self.runs]
        if not self.slow or not {True, False}.issubset(states):
            return tuple(states)
        usual = statistics.median(run.judged for run, bad in zip(self.judged, states, strict=True) if bad is False)
        direction, noise = self.judged[-1].metric.direction, self.noise() or PRIOR
        level = math.log(direction.cost(usual)) + DEVIATIONS * noise.sigma
        for period in periods(states, GOOD_RUNS, [run.time_s for run in self.runs]):
            own = (run for run in period.wrong if states[run] and not self._is_by_node(self.judged[run], level))
            begin = period.wrong[0]
            first = next(own, begin)
            states[begin:first] = [None if is_wrong else is_wrong for is_wrong in states[begin:first]]
        return tuple(states)

    def _is_by_node(self, run: Point, level: float) -> bool:
        """True if a run would be below a level, a logarithm of cost, without the loss of its slow node."""
        return any(
            node.ran_in(run.nodes, run.time_s) and math.log(run.cost) + math.log1p(node.change) < level
            for node in self.slow
        )

    @property
    def since(self) -> Since | None:
        """The onset of the newest run's state: slow, as its alarm has it, or improved; ``None`` for another one."""
        words = [run.outcome for run in self.runs]
        is_slow = bool(words) and words[-1] in outcomes.SLOW
        alike = outcomes.SLOW if is_slow else {outcomes.IMPROVED.word}
        # A row without an alarm was inconclusive at most.
        of_alarm = periods(self.regressed, GOOD_RUNS, [run.time_s for run in self.runs]) if is_slow else ()
        episodes = (*periods([word in alike for word in words]), *of_alarm)
        return next((self.onset(period) for period in reversed(episodes) if period.recovered is None), None)

    def onset(self, period: Period) -> Since:
        """The onset of a state, by the indices of its runs."""
        incidents = frozenset() if self.adjustment is None else self.adjustment.together.incidents
        runs, first = self.judged, period.wrong[0]
        good = [run for run in runs[:first] if run.outcome not in outcomes.SLOW and run.run_id not in incidents]
        return onset(runs, good, first, len(period.wrong))

    @cached_property
    def counted(self) -> tuple[Point, ...]:
        """The runs that count: since a figure was accepted, without late arrivals for a complete reference."""
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
            for node in self.slow
            for point in self.points
            if (point.run_id, point.job_id) in node.jobs
            or (point.added_s == math.inf and node.ran_in(point.nodes, point.time_s))
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
        noise = self.noise()
        return () if noise is None else environment_changes(self.sound, noise)

    def without(self, run_id: str, until_s: float = math.inf, jobs: Iterable[Point] = ()) -> RowHistory:
        """The history without a run that continues and is in it already.

        Args:
            run_id: The run.
            until_s: End of the history.
            jobs: Jobs of the run: for a replayed one, the history has them already.
        """
        known = {(job.job_id, job.time_s) for job in jobs}
        points = [
            point
            for point in self.points
            if point.run_id != run_id and point.time_s <= until_s and (point.job_id, point.time_s) not in known
        ]
        return replace(self, points=tuple(points))

    def including_run(self, points: Iterable[Point]) -> RowHistory:
        """The history with the jobs of a run that is not in it; they come after all others."""
        return replace(self, points=(*self.points, *(replace(point, added_s=math.inf) for point in points)))


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


def since(points: Sequence[Point], accepted: Accepted) -> tuple[Point, ...]:
    """The jobs of a row that count, from its jobs in order of time: since the accepted ones, or their day."""
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
    change = drift(costs)
    if change is None:
        return None
    first, since = drift_onset(change, costs, lambda run: onset(runs, runs[:run], run, len(runs) - run))
    return Drifting(change, runs[first], since, adjusted_costs is not None)
