"""Alarms: a problem over several runs as one object with an identity, which people can acknowledge.

An alarm is raised by one run and stays active until it is fixed. Its identity comes from that run, and later runs do
not change it: the same drift is the same alarm in the next run, and a problem that was fixed and returns is a new one.
An acknowledgement has a reason, an owner and an end. An acknowledged alarm does not page, unless it becomes worse.
Alarms affect neither outcomes nor exit statuses: an acknowledgement turns nothing green.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import json
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_gsw.common.text import by_number
from pytest_gsw.history.cluster_series import ClusterSeries
from pytest_gsw.history.environment_changes import COMPARED
from pytest_gsw.history.model import ExperimentKey
from pytest_gsw.history.node_search import SlowNode
from pytest_gsw.history.row_history import GONE_DAYS, ClusterDrifting, ClusterHistory, Drifting, RowHistory, first_jobs
from pytest_gsw.history.since import AGAIN_S, GOOD_RUNS, Changes, Period, Since, changed, periods
from pytest_gsw.history.store import ACKNOWLEDGE, Event, History
from pytest_gsw.results.runs_directory import begin_of
from pytest_gsw.stats.drift import NEWEST, warned_runs
from pytest_gsw.stats.figures import SECONDS_PER_DAY
from pytest_gsw.stats.noise import PRIOR, REFERENCE_JOBS, median_sd
from pytest_gsw.tables.metrics import STEP_TIME, Metric

#: Standard deviations by which a run is worse than the alarm's last reported level (by chance, one run in a thousand
#: is). And the smallest worsening, as a logarithm.
_WORSE = 3.1
_LEAST_WORSE = math.log1p(0.02)
#: Runs whose median is the alarm's reported level.
_LEVEL_RUNS = 10
#: Newest runs whose level shows that a row is back.
_BACK_RUNS = 5
#: Logarithm of the least likelihood of a run with which a row may have become slow, against the most likely one.
_LEAST_LIKELY = -1.0
#: Hexadecimal digits of an identity.
_ID_DIGITS = 8


class Kind(enum.Enum):
    """Kinds of alarms; incidents come first, because the others may be their consequence."""

    INCIDENT = "incident"
    NODE = "node"
    REGRESSION = "regression"
    DRIFT = "drift"


#: Kinds whose subject is a row: a run without that row does not affect them.
OF_ROWS = frozenset({Kind.REGRESSION, Kind.DRIFT})


class State(enum.Enum):
    """The state of an alarm after the newest run."""

    NEW = "new"
    WORSE = "worse"
    ONGOING = "ongoing"
    FIXED = "fixed"
    #: Its subject was not measured for so long that its state is unknown.
    GONE = "gone"


@dataclass(frozen=True)
class Occurrence:
    """One run with the problem."""

    run_id: str
    time_s: float
    #: The logarithm of the cost (:meth:`Direction.cost`) on that run: a run is worse than another by the difference.
    level: float

    @property
    def begin_s(self) -> float:
        """Start of its run."""
        return begin_of(self.run_id, self.time_s)


@dataclass(frozen=True)
class IncidentPeriod:
    """The runs with one problem: the data of every kind of alarm."""

    kind: Kind
    cluster: str
    #: Its subject for people: a row, a node, the cluster.
    subject: str
    #: Its objects: a row's experiment and definitions, or nodes. Periods of one kind with a common one are related.
    things: frozenset[str]
    #: Its constant difference from other periods of the same subject: the run that raised it.
    token: str
    #: Its runs, from the one that raised it on; at least one.
    runs: tuple[Occurrence, ...] = ()
    #: Its earliest possible start, after the fix of the last one of the same things.
    begin_s: float = 0.0
    #: Standard deviation of a run's level without changes.
    sd: float = 0.0
    #: True if its newest run is the newest that could show it.
    is_newest: bool = False
    #: Time of the last run that could show it.
    last_s: float = 0.0
    #: Time of the run that found it fixed; ``None`` while it is active.
    fixed_s: float | None = None
    #: The run that found it fixed.
    fixed_by: str = ""
    #: The good runs in a row so far, and the number that ends it.
    good_runs: int = 0
    ends_after: int = 1
    #: Time of its end for lack of measurements; ``None`` if it did not end this way.
    gone_s: float | None = None
    #: True if its subject was not measured for days, while others of its cluster were.
    is_away: bool = False
    #: The level before; ``None`` if unknown.
    usual: float | None = None
    #: Its onset, if that is not the run that raised it, or what changed then is known.
    onset: Since | None = None
    #: True if the newest run found it, for periods of nodes, whose runs are those of their slow jobs.
    is_new: bool = False
    #: True if all known runs had it.
    is_always: bool = False
    #: The identity of the period that explains it and pages for it; empty if there is none.
    part_of: str = ""
    #: The runs with which that of a row can have begun; empty if unknown, and for others.
    begins: frozenset[str] = frozenset()
    #: Changes in these runs.
    changes: Changes = field(default_factory=dict)
    #: The metric of its row; of several rows, throughput is compared.
    metric: Metric = STEP_TIME


@dataclass(frozen=True)
class Acknowledgement:
    """The acknowledgement of an alarm by its owner."""

    #: The alarm's identity at that time, and its objects.
    alarm: str
    kind: Kind
    cluster: str
    things: frozenset[str]
    #: Time of the newest run that the owner had seen.
    seen_s: float
    why: str
    owner: str
    until_s: float
    #: The number of its event.
    event: int = 0


@dataclass(frozen=True)
class Alarm:
    """A period with its acknowledgement."""

    id: str
    period: IncidentPeriod
    state: State
    #: True if it should call a person: it is active, and not acknowledged in its current state.
    pages: bool
    acknowledged: Acknowledgement | None = None
    #: The id of the alarm that explains it, and pages for both.
    part_of: str = ""

    @property
    def since(self) -> Since:
        """Its onset."""
        return self.period.onset or Since(self.period.runs[0].begin_s, len(self.period.runs))

    @property
    def fixed_s(self) -> float | None:
        """Start of the run that found it fixed; ``None`` while it is active."""
        period = self.period
        return None if period.fixed_s is None else begin_of(period.fixed_by, period.fixed_s)

    @property
    def gain(self) -> float | None:
        """Speed of its newest run over that before it, less one; ``None`` if the latter is unknown."""
        usual = self.period.usual
        return None if usual is None else math.exp(usual - self.period.runs[-1].level) - 1

    @property
    def change(self) -> float | None:
        """The same as the change that screens show."""
        return None if self.gain is None else self.period.metric.change_by(self.gain)

    @property
    def is_active(self) -> bool:
        """True if it is still active."""
        return self.state not in {State.FIXED, State.GONE}


def alarms(periods: Iterable[IncidentPeriod], known: Sequence[Acknowledgement], now_s: float) -> tuple[Alarm, ...]:
    """Alarms of periods: paging ones first, then by kind, and the greatest loss first.

    Args:
        periods: Periods with a problem.
        known: Acknowledgements, the newest last.
        now_s: Seconds since the epoch, to find expired acknowledgements.
    """
    listed: list[Alarm] = []
    taken: set[str] = set()
    for period in periods:
        alarm = _alarm(period, known, now_s)
        if alarm.acknowledged is not None and alarm.acknowledged.alarm not in taken:
            # The known start may change; the identity that people have known does not.
            alarm = replace(alarm, id=alarm.acknowledged.alarm)
        taken.add(alarm.id)
        listed.append(alarm)
    by_identity = {identity(alarm.period): alarm for alarm in listed}
    listed = _with_first([_with_cause(alarm, by_identity) for alarm in listed])
    kinds, states = list(Kind), list(State)

    def rank(alarm: Alarm) -> tuple[Any, ...]:
        place = (kinds.index(alarm.period.kind), states.index(alarm.state))
        what = (alarm.period.cluster, by_number(alarm.period.subject), alarm.id)
        return (not alarm.is_active, not alarm.pages, *place, alarm.gain or 0.0, *what)

    return tuple(sorted(listed, key=rank))


def _with_cause(alarm: Alarm, known: Mapping[str, Alarm]) -> Alarm:
    """An alarm as part of another active one that explains it."""
    by = known.get(alarm.period.part_of)
    return _part(alarm, _with_cause(by, known)) if by is not None and alarm.is_active and by.is_active else alarm


def _with_first(found: Sequence[Alarm]) -> list[Alarm]:
    """Alarms of rows that began in one run as parts of the one that was raised first."""
    causes = (alarm for alarm in found if alarm.is_active and not alarm.part_of and alarm.period.begins)
    first_of: dict[str, Alarm] = {}
    for alarm in sorted(causes, key=lambda alarm: (alarm.period.runs[0].time_s, by_number(alarm.period.subject))):
        first_of[alarm.id] = next((first for first in first_of.values() if _is_part(alarm, first)), alarm)
    causes_of = ((alarm, first_of.get(alarm.part_of or alarm.id, alarm)) for alarm in found)
    return [alarm if first.id in {alarm.id, alarm.part_of} else _part(alarm, first) for alarm, first in causes_of]


def _is_part(alarm: Alarm, first: Alarm) -> bool:
    """True if two rows have one cause, by their begins and changes then, and the owner of the first knows of both."""
    period, known = alarm.period, first.acknowledged
    is_known = first.pages or known is None or period.runs[last_reported(period)].begin_s <= known.seen_s
    is_together = first.period.subject != period.subject and not first.period.begins.isdisjoint(period.begins)
    changes = [{change for change in of.changes.items() if change[0] != "nodes"} for of in (first.period, period)]
    return is_known and is_together and (not any(changes) or not changes[0].isdisjoint(changes[1]))


def _part(alarm: Alarm, by: Alarm) -> Alarm:
    """An alarm for which another one pages; the other's acknowledgement applies to both."""
    others = None if by.pages else by.acknowledged
    acknowledged = others if alarm.pages else alarm.acknowledged or others
    return replace(alarm, pages=False, part_of=by.part_of or by.id, acknowledged=acknowledged)


def least_worse(sd: float) -> float:
    """Smallest worsening, as a logarithm, that exceeds noise with this standard deviation."""
    return max(_LEAST_WORSE, _WORSE * sd)


def _alarm(period: IncidentPeriod, known: Sequence[Acknowledgement], now_s: float) -> Alarm:
    reported = last_reported(period)
    found = next((acknowledgement for acknowledgement in reversed(known) if _is_of(acknowledgement, period)), None)
    if period.fixed_s is not None or period.gone_s is not None:
        ended = State.GONE if period.fixed_s is None else State.FIXED
        return Alarm(identity(period), period, ended, pages=False, acknowledged=found)
    state = State.NEW if period.is_new else State.ONGOING
    if period.is_newest and reported == len(period.runs) - 1:
        state = State.WORSE if reported else State.NEW
    is_known = found is not None and period.runs[reported].time_s <= found.seen_s and now_s < found.until_s
    return Alarm(identity(period), period, state, pages=not is_known, acknowledged=found)


def identity(period: IncidentPeriod) -> str:
    """The identity of a period, constant as long as it lasts."""
    facts = [period.kind.value, period.cluster, period.subject, period.token]
    return hashlib.sha256(json.dumps(facts).encode("ascii")).hexdigest()[:_ID_DIGITS]


def last_reported(period: IncidentPeriod) -> int:
    """The index of the period's run that raised it or was worse than the level reported before."""
    reported = 0
    for number, run in enumerate(period.runs[1:], 1):
        known = [occurrence.level for occurrence in period.runs[reported : min(number, reported + _LEVEL_RUNS)]]
        noise = period.sd * math.hypot(1, median_sd(len(known)))
        if run.level - statistics.median(known) > least_worse(noise):
            reported = number
    return reported


def acknowledge(alarm: Alarm, *, why: str, owner: str, until_s: float, time_s: float) -> Event:
    """An acknowledgement of an alarm as an event for the history."""
    period = alarm.period
    body = {
        "why": why,
        "owner": owner,
        "until_s": until_s,
        # These identify it even if its start turns out to be another run.
        "alarm": period.kind.value,
        "things": sorted(period.things),
        "seen_s": period.runs[-1].time_s,
    }
    return Event(ACKNOWLEDGE, alarm.id, period.cluster, time_s, body)


def acknowledgements(events: Iterable[Event]) -> tuple[Acknowledgement, ...]:
    """The acknowledgements among events; unreadable ones are skipped."""
    known = []
    for event in (event for event in events if event.kind == ACKNOWLEDGE):
        body = event.body
        with suppress(KeyError, TypeError, ValueError):  # of a later release
            kind, things = Kind(body["alarm"]), frozenset(map(str, body["things"]))
            seen_s, until_s = float(body["seen_s"]), float(body["until_s"])
            why, owner = str(body["why"]), str(body["owner"])
            known.append(
                Acknowledgement(event.subject, kind, event.cluster, things, seen_s, why, owner, until_s, event.id)
            )
    return tuple(known)


def _is_of(known: Acknowledgement, period: IncidentPeriod) -> bool:
    """True if an acknowledgement was given for this period: for the same things, and while it lasted."""
    is_kind = (known.kind, known.cluster) == (period.kind, period.cluster)
    is_same = is_kind and not period.things.isdisjoint(known.things)
    return is_same and period.begin_s <= known.seen_s and (period.fixed_s is None or known.seen_s < period.fixed_s)


# -- The runs with a problem of a row, a node or a cluster, by its history --------------------------


#: Days without a figure of a row, or a job on a node, after which that is reported, if its cluster has others.
_AWAY_DAYS = 2


def raised(
    period: IncidentPeriod,
    seen: Sequence[Occurrence],
    wrong: Sequence[bool | None],
    good_runs: int = 1,
    *,
    goes_on: bool = True,
    onset: Callable[[Period], Since | None] = lambda _: None,
) -> Iterator[IncidentPeriod]:
    """Periods with a problem, copies of the given one, each from the run that raised it to its end.

    Args:
        period: Template of the periods.
        seen: All runs that could show the problem.
        wrong: Presence of the problem in each of them; ``None`` for a run that does not show it.
        good_runs: Good runs in a row that end a period.
        goes_on: True if a problem that returns soon is the same as before.
        onset: Returns the onset of a period.
    """
    fixed_s = -math.inf
    for episode in periods(wrong, good_runs, [occurrence.time_s for occurrence in seen] if goes_on else ()):
        first = seen[episode.wrong[0]]
        ended = None if episode.recovered is None else seen[episode.recovered]
        yield replace(
            period,
            token=f"{period.token} {first.run_id}".strip(),
            runs=tuple(seen[run] for run in episode.wrong),
            begin_s=max(fixed_s, first.time_s),
            is_newest=episode.wrong[-1] == len(seen) - 1,
            last_s=seen[-1].time_s,
            fixed_s=None if ended is None else ended.time_s,
            fixed_by="" if ended is None else ended.run_id,
            good_runs=episode.good,
            ends_after=good_runs,
            onset=onset(episode),
        )
        fixed_s = fixed_s if ended is None else ended.time_s


def regressions(key: ExperimentKey, past: RowHistory) -> Iterator[IncidentPeriod]:
    """Periods in which a row was slower than allowed."""
    runs, slow = past.judged, past.regressed
    if True not in slow:
        return
    seen = [Occurrence(run.run_id, run.time_s, math.log(run.cost)) for run in runs]
    things, sigma = _things(key, past), (past.noise() or PRIOR).sigma
    row = IncidentPeriod(
        *(Kind.REGRESSION, key.cluster, key.row, things, key.experiment),
        sd=sigma,
        is_always=False not in slow,
        metric=runs[-1].metric,
    )
    for period in raised(row, seen, slow, GOOD_RUNS, onset=past.onset):
        first = seen.index(period.runs[0])
        before = [one.level for one, bad in zip(seen[:first], slow, strict=False) if bad is False][-COMPARED:]
        if before:
            usual = statistics.median(before)
            begins = _begins([occurrence.level for occurrence in seen[: first + 1]], usual, sigma)
            good = [run for run, bad in zip(runs[: begins[0]], slow, strict=False) if bad is False]
            changes = changed(good, runs[first])
            period = replace(period, usual=usual, begins=frozenset(seen[at].run_id for at in begins), changes=changes)
        yield period


def _begins(levels: Sequence[float], usual: float, sigma: float) -> list[int]:
    """The runs with which the newest one's level can have begun: earlier ones may have passed by chance."""
    loss = levels[-1] - usual
    sums = [*itertools.accumulate(level - usual - loss / 2 for level in reversed(levels))][::-1]
    return [run for run, total in enumerate(sums) if (total - max(sums)) * loss >= _LEAST_LIKELY * sigma**2]


def _things(key: ExperimentKey, past: RowHistory) -> frozenset[str]:
    """A row's experiment, and its definitions, since some records have only these."""
    return frozenset(f"{key.row} {name}" for name in (key.experiment, *(point.definition for point in past.points)))


def drifts(key: ExperimentKey, past: RowHistory, causes: Sequence[IncidentPeriod] = ()) -> Iterator[IncidentPeriod]:
    """Periods in which a row's newest runs were slower than its first ones, adjusted for the cluster.

    ``causes`` are its regressions.
    """
    if not warned_runs(past.adjusted_costs):
        return
    row = IncidentPeriod(
        *(Kind.DRIFT, key.cluster, key.row, _things(key, past), key.experiment),
        sd=(past.noise() or PRIOR).sigma,
        metric=past.points[-1].metric,
    )
    times = [(run.run_id, run.time_s) for run in past.counted]
    begins = frozenset({past.drifting.first.run_id} if past.drifting else ())
    for period in _drifts(row, times, past.adjusted_costs, past.drifting, causes):
        yield replace(period, last_s=past.runs[-1].time_s, begins=begins)


def _drifts(
    period: IncidentPeriod,
    runs: Sequence[tuple[str, float]],
    costs: Sequence[float],
    found: Drifting | ClusterDrifting | None,
    causes: Sequence[IncidentPeriod],
) -> Iterator[IncidentPeriod]:
    """Periods in which the newest runs were slower than the first ones, by runs with their times and costs.

    One that a cause began with, or before, is part of it. Medians lag behind: when the cause has ended, and the row is
    back, the drift has ended as well.
    """
    logs, warned = [*map(math.log, costs)], frozenset(warned_runs(costs))
    if not warned:
        return
    # Adjacent runs share all but one of their newest runs: their medians are correlated.
    sd = period.sd * median_sd(NEWEST) * math.sqrt(2)
    levels = (statistics.median(logs[max(0, number + 1 - NEWEST) : number + 1]) for number in range(len(logs)))
    seen = [Occurrence(*run, level) for run, level in zip(runs, levels, strict=True)]
    usual = statistics.median(logs[:REFERENCE_JOBS])
    before_s = -math.inf
    for one in raised(
        replace(period, sd=sd, usual=usual), seen, [number in warned for number in range(len(logs))], goes_on=False
    ):
        if found is None or one.fixed_s is not None:
            yield one
        else:
            # An acknowledgement applies to the same drift, whichever of its possible first runs it was given for.
            begin_s = max(before_s, min(one.begin_s, found.onset.time_s))
            drift = replace(one, begin_s=begin_s, onset=found.onset, changes=found.onset.changes)
            cause = next((other for other in reversed(causes) if other.runs[0].time_s <= one.runs[0].time_s), None)
            if cause is not None and cause.fixed_s is None:
                drift = replace(drift, part_of=identity(cause))
            elif cause is not None:
                end_s = cause.runs[-1].time_s
                after = [log - usual for (_, time_s), log in zip(runs, logs, strict=True) if time_s > end_s]
                if 0 < len(after) <= NEWEST and _is_back(after[-_BACK_RUNS:], period.sd):
                    drift = replace(drift, fixed_s=cause.fixed_s, fixed_by=cause.fixed_by)
            yield drift
        before_s = one.fixed_s or before_s


def _is_back(losses: Sequence[float], sd: float) -> bool:
    """True if the median of runs, as logarithms over the usual level, is no more than noise."""
    return statistics.median(losses) <= max(_LEAST_WORSE, 2 * sd * median_sd(len(losses)))


def whole_cluster(cluster: str) -> str:
    """The subject of an alarm of all rows of a cluster."""
    return f"cluster {cluster}"


def _of_cluster(kind: Kind, cluster: str, together: ClusterHistory) -> IncidentPeriod:
    subject, noise = whole_cluster(cluster), together.before.noise
    return IncidentPeriod(kind, cluster, subject, frozenset({subject}), "", sd=0.0 if noise is None else noise.sigma)


def incidents(cluster: str, together: ClusterHistory) -> Iterator[IncidentPeriod]:
    """Periods in which a cluster was slower for all of its rows than the noise between its runs."""
    level, seen = 0.0, []
    for number, run in enumerate(together.runs):
        effect = together.before.effect(number)
        level = level if effect is None else effect.value  # a run with few rows has no effect
        seen.append(Occurrence(run.name, run.time_s, level))
    period = replace(_of_cluster(Kind.INCIDENT, cluster, together), usual=0.0)
    yield from raised(period, seen, together.slower, onset=together.onset)


def cluster_drifts(
    cluster: str, together: ClusterHistory, causes: Sequence[IncidentPeriod]
) -> Iterator[IncidentPeriod]:
    """Periods in which the newest runs of a cluster were slower than its first ones for its rows together.

    ``causes`` are its incidents.
    """
    effects = together.before.effects
    if together.before.noise is None:
        return
    runs = [(together.runs[number].name, together.runs[number].time_s) for number in effects]
    ratios = [math.exp(effect) for effect in effects.values()]
    yield from _drifts(_of_cluster(Kind.DRIFT, cluster, together), runs, ratios, together.drifting, causes)


def slow_nodes(cluster: str, now: Sequence[SlowNode], before: Sequence[SlowNode]) -> Iterator[IncidentPeriod]:
    """Periods in which nodes made jobs slow.

    Args:
        cluster: Their cluster.
        now: Slow nodes by all runs.
        before: Slow nodes before the newest run.
    """
    ordered = sorted(now, key=lambda node: node.slow_jobs[0].time_s)
    for number, node in enumerate(ordered):
        nodes = frozenset(node.nodes)
        earlier = [other for other in ordered[:number] if not nodes.isdisjoint(other.nodes)]
        known = [other for other in before if not other.recovered and not nodes.isdisjoint(other.nodes)]
        later = [point for point in node.fast_jobs if point.time_s > node.slow_jobs[-1].time_s]
        fast_again = min(later, key=lambda point: point.time_s, default=node.slow_jobs[-1])
        # A node's loss is one figure for all of its jobs: it never becomes worse.
        level = -math.log1p(node.change)
        yield IncidentPeriod(
            Kind.NODE,
            cluster,
            node.name,
            nodes,
            f"{len(earlier)}",
            tuple(Occurrence(point.run_id, point.time_s, level) for point in first_jobs(node.slow_jobs)),
            begin_s=max([node.slow_jobs[0].time_s, *(other.slow_jobs[-1].time_s for other in earlier)]),
            last_s=max(point.time_s for point in (*node.slow_jobs, *node.fast_jobs)),
            fixed_s=fast_again.time_s if node.recovered else None,
            fixed_by=fast_again.run_id if node.recovered else "",
            usual=0.0,
            is_new=not known,
        )


def incident_periods_of(
    cluster: str, lines: ClusterSeries, slow_before: Sequence[SlowNode] | None = None
) -> tuple[IncidentPeriod, ...]:
    """All problems of a cluster that are active, or were fixed a few days before its newest run at most.

    Args:
        cluster: Its name.
        lines: Its runs.
        slow_before: The nodes that were slow before the newest run; computed if not given.
    """
    jobs = [point for points in lines.runs.values() for point in points if point.run_id not in lines.excluded]
    newest = max(jobs, key=lambda point: point.time_s, default=None)
    if newest is None:
        return ()
    if lines.slow and slow_before is None:
        before = {key: [job for job in points if job.run_id != newest.run_id] for key, points in lines.runs.items()}
        slow_before = lines.nodes_of(before).slow
    together = lines.adjustment.together
    of_nodes = tuple(slow_nodes(cluster, lines.slow, slow_before or ()))
    of_rows: list[IncidentPeriod] = []
    for (row, _, experiment), past in lines.newest.items():
        key = ExperimentKey(row, cluster, experiment)
        slow = tuple(regressions(key, past))
        drifted = tuple(drifts(key, past, slow))
        of_rows += (_with_drift(_with_node(other, past, lines.slow, of_nodes), drifted) for other in slow)
        of_rows += drifted
    slow_rows = [other for other in of_rows if other.fixed_s is None]
    of_cluster = tuple(incidents(cluster, together))
    drifted = tuple(cluster_drifts(cluster, together, of_cluster))
    of_cluster = (*(_with_drift(other, drifted) for other in of_cluster), *drifted)
    all_periods = [*of_nodes, *(_with_rows(other, together, slow_rows) for other in of_cluster), *of_rows]
    oldest_end_s = newest.time_s - AGAIN_S  # since then, a fixed alarm may still continue
    known = [_as_of(newest.time_s, period) for period in all_periods]
    ends = ((period, period.gone_s if period.fixed_s is None else period.fixed_s) for period in known)
    return tuple(period for period, end_s in ends if end_s is None or end_s >= oldest_end_s)


def _with_node(
    period: IncidentPeriod, past: RowHistory, slow: Iterable[SlowNode], of_nodes: Iterable[IncidentPeriod]
) -> IncidentPeriod:
    """A regression as part of a node's alarm, if most jobs of its newest run had the node and its loss explains it."""
    newest, usual = period.runs[-1], period.usual
    if period.fixed_s is not None or usual is None:
        return period
    jobs = [point for point in past.points if point.run_id == newest.run_id]
    for slow_node in slow:
        had = sum(slow_node.ran_in(point.nodes, point.time_s) for point in jobs)
        left = newest.level + math.log1p(slow_node.change) - usual
        is_older = slow_node.slow_jobs[0].begin_s <= period.runs[0].begin_s
        if is_older and not slow_node.recovered and 2 * had > len(jobs) and left <= least_worse(period.sd):
            node = next(of for of in of_nodes if of.fixed_s is None and of.things == frozenset(slow_node.nodes))
            return replace(period, part_of=identity(node))
    return period


def _with_rows(period: IncidentPeriod, together: ClusterHistory, slow: Sequence[IncidentPeriod]) -> IncidentPeriod:
    """A period of a cluster as part of that of the first of its slow rows, if these explain most of its loss."""
    levels = {row: level for row, level in together.before.levels.items() if all(row != one.subject for one in slow)}
    runs = [run.points for run in together.runs[-1 if period.kind is Kind.INCIDENT else -NEWEST :]]
    others = [[math.log(run[row].cost) - levels[row] for row in run.keys() & levels.keys()] for run in runs]
    is_few = slow and all(2 * len(rest) > len(run) for rest, run in zip(others, runs, strict=True))
    if is_few and not period.part_of and 2 * statistics.median(map(statistics.median, others)) < period.runs[-1].level:
        return replace(period, part_of=identity(min(slow, key=lambda other: other.runs[0].time_s)))
    return period


def _with_drift(period: IncidentPeriod, drifted: Iterable[IncidentPeriod]) -> IncidentPeriod:
    """A regression, or an incident, as part of the older drift whose level, and noise, explain its own."""
    level = statistics.median(run.level for run in period.runs[-_LEVEL_RUNS:])
    noise = period.sd * median_sd(min(len(period.runs), _LEVEL_RUNS))
    for other in drifted:
        is_older = other.fixed_s is None and other.runs[0].time_s < period.runs[0].time_s
        if is_older and not period.part_of and level - other.runs[-1].level <= least_worse(noise):
            return replace(period, part_of=identity(other))
    return period


def _as_of(now_s: float, period: IncidentPeriod) -> IncidentPeriod:
    """A period at the time of its cluster's newest job."""
    days = (now_s - period.last_s) / SECONDS_PER_DAY
    if period.fixed_s is not None or days < _AWAY_DAYS:
        return period
    gone_s = period.last_s + GONE_DAYS * SECONDS_PER_DAY
    return replace(period, is_away=True, is_newest=False, is_new=False, gone_s=gone_s if now_s >= gone_s else None)


def alarms_of(
    history: History,
    cluster: str,
    lines: ClusterSeries,
    *,
    now_s: float,
    until_s: float = math.inf,
    measured: Collection[str] | None = None,
    slow_before: Sequence[SlowNode] | None = None,
) -> tuple[Alarm, ...]:
    """The alarms of a cluster by all its runs until a time, as reported by a run that measured some rows.

    Without a reporting run, ``measured`` is ``None``. For the other arguments see :func:`incident_periods_of`.

    Raises:
        HistoryError: The history did not answer.
    """
    periods = incident_periods_of(cluster, lines.until(until_s), slow_before)
    shown = [other if _is_seen(other, measured) else replace(other, is_newest=False, is_new=False) for other in periods]
    return alarms(shown, acknowledgements(history.events(cluster)), now_s)


def _is_seen(period: IncidentPeriod, measured: Collection[str] | None) -> bool:
    """True if a run that measured these rows can show the problem."""
    if measured is None:
        return True
    is_of_row = period.kind in OF_ROWS and period.subject != whole_cluster(period.cluster)
    return period.subject in measured if is_of_row else bool(measured)
