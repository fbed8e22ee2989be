"""Alarms: what is wrong for several runs is one thing, with an identity by which people can say that they know it.

An alarm is raised on one run and stands until it is mended. Its identity is that run's, which no later run moves:
the same drift is the same alarm on the next run, and what was mended and comes back is another one. Whoever
acknowledges an alarm says why, who looks after it and until when. It does not page then, unless it becomes worse, and
nothing turns green by that: outcomes and exit statuses know nothing of alarms.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_gsw.common.text import by_number
from pytest_gsw.history.model import ExperimentKey, Point, points_of, record_time_s, series_key
from pytest_gsw.history.row_history import (
    COMPARED,
    GONE_DAYS,
    ClusterAdjustment,
    ClusterDrifting,
    ClusterHistory,
    ClusterSeries,
    Drifting,
    Nodes,
    RowHistory,
    SlowNode,
    series_of_cluster,
)
from pytest_gsw.history.store import ACKNOWLEDGE, Event, History
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.results.run_id import begin_of
from pytest_gsw.stats.drift import NEWEST, warned_runs
from pytest_gsw.stats.figures import SECONDS_PER_DAY
from pytest_gsw.stats.noise import PRIOR, REFERENCE_JOBS, median_sd
from pytest_gsw.tables.model import Accepted

#: Standard deviations by which a run is worse than an alarm was when it was last told: one run in a thousand is,
#: by chance alone. And the least that it is worse by, as a logarithm.
_WORSE = 3.1
_LEAST_WORSE = math.log1p(0.02)
#: How many runs say how bad an alarm was when it was told.
_TOLD_BY = 10
#: Hexadecimal digits of an identity.
_ID_DIGITS = 8


class Kind(enum.Enum):
    """What is wrong; incidents come first, because they have the others as their consequence."""

    INCIDENT = "incident"
    NODE = "node"
    REGRESSION = "regression"
    DRIFT = "drift"


#: Kinds whose subject is a row: a run that did not run it has nothing to say of them.
OF_ROWS = frozenset({Kind.REGRESSION, Kind.DRIFT})


class State(enum.Enum):
    """What became of an alarm on the newest run."""

    NEW = "new"
    WORSE = "worse"
    STILL = "still"
    MENDED = "mended"
    #: Nothing was measured of it for so long that nobody knows.
    GONE = "gone"


#: What reports list alarms as, by what became of them.
_LISTED = {State.NEW: "new", State.WORSE: "new", State.STILL: "ongoing", State.MENDED: "fixed"}


@dataclass(frozen=True)
class Occurrence:
    """One run on which something was wrong."""

    run_id: str
    time_s: float
    #: The logarithm of the seconds on that run: a run is worse than another by the difference.
    level: float

    @property
    def begin_s(self) -> float:
        """When its run began."""
        return begin_of(self.run_id, self.time_s)


@dataclass(frozen=True)
class IncidentPeriod:
    """The runs on which one thing was wrong: what every kind of alarm is made of, whoever finds it."""

    kind: Kind
    cluster: str
    #: What people call it: a row, a node, the cluster.
    subject: str
    #: What it is of: a row's experiment and definitions, nodes. Spells of one kind that share one are of one thing.
    things: frozenset[str]
    #: What tells it from other spells of the same subject, and never changes: the run that raised it.
    token: str
    #: Its runs, from that which raised it on; there is one at least.
    runs: tuple[Occurrence, ...] = ()
    #: The earliest time at which it may have begun, after the last one of the same things was mended.
    begin_s: float = 0.0
    #: By how much a run's level differs while nothing changes: standard deviation.
    sd: float = 0.0
    #: Whether its newest run is the newest on which it could be seen.
    is_newest: bool = False
    #: When it could be seen last.
    last_s: float = 0.0
    #: When it was found mended, ``None`` while it stands.
    mended_s: float | None = None
    #: The run that found it mended.
    mended_by: str = ""
    #: The good runs in a row that it has by now, and how many end it.
    good_runs: int = 0
    ends_after: int = 1
    #: When it ended because nothing is measured of it any more, ``None`` where that is not so.
    gone_s: float | None = None
    #: Whether nothing was measured of it for days, while others of its cluster were.
    is_away: bool = False
    #: The level before, ``None`` where nothing is known of it.
    usual: float | None = None
    #: When the first run began that is not like those before, where that is not the one that raised it.
    since_s: float | None = None
    #: Whether the newest run found it, where its runs do not tell: those of a node are the jobs that accuse it.
    is_new: bool = False
    #: Whether nothing better is known of it: it was so on all runs.
    is_always: bool = False
    #: The identity of the spell that explains it, which pages for it; empty where none does.
    part_of: str = ""
    #: What changed then, by name; what was before and is since.
    changes: Mapping[str, tuple[str, str]] | None = None


@dataclass(frozen=True)
class Acknowledgement:
    """That somebody looks after an alarm."""

    #: What the alarm was called, and of what it was.
    alarm: str
    kind: Kind
    cluster: str
    things: frozenset[str]
    #: When its newest run was that they knew.
    seen_s: float
    why: str
    owner: str
    until_s: float
    #: The number of the event that says so.
    event: int = 0


@dataclass(frozen=True)
class Alarm:
    """A spell with what people have said of it."""

    id: str
    spell: IncidentPeriod
    state: State
    #: Whether somebody is to be called: it stands, and is not acknowledged as what it is now.
    pages: bool
    acknowledged: Acknowledgement | None = None
    #: The id of the alarm that explains it, and pages for both.
    part_of: str = ""

    @property
    def since_s(self) -> float:
        """When the first run with it began, seconds since the epoch."""
        return self.spell.runs[0].begin_s if self.spell.since_s is None else self.spell.since_s

    @property
    def mended_s(self) -> float | None:
        """When the run that found it mended began, ``None`` while it stands."""
        spell = self.spell
        return None if spell.mended_s is None else begin_of(spell.mended_by, spell.mended_s)

    @property
    def change(self) -> float | None:
        """Throughput of its newest run over that before it, less one; ``None`` where nothing before is known."""
        usual = self.spell.usual
        return None if usual is None else math.exp(usual - self.spell.runs[-1].level) - 1

    @property
    def stands(self) -> bool:
        """Whether it is wrong yet."""
        return self.state not in {State.MENDED, State.GONE}


def alarms(spells: Iterable[IncidentPeriod], said: Sequence[Acknowledgement], now_s: float) -> tuple[Alarm, ...]:
    """Spells as alarms: those that page first, then by kind, and the greatest loss first.

    Args:
        spells: What was wrong and when.
        said: What people have acknowledged, the newest last.
        now_s: Seconds since the epoch, by which an acknowledgement has ended.
    """
    found: list[Alarm] = []
    taken: set[str] = set()
    for spell in spells:
        one = _alarm(spell, said, now_s)
        if one.acknowledged is not None and one.acknowledged.alarm not in taken:
            # What is known of a beginning may change; what people have noted stays what it is called.
            one = replace(one, id=one.acknowledged.alarm)
        taken.add(one.id)
        found.append(one)
    by_identity = {identity(one.spell): one for one in found}
    found = [_explained(one, by_identity.get(one.spell.part_of)) for one in found]
    kinds, states = list(Kind), list(State)

    def rank(one: Alarm) -> tuple[Any, ...]:
        place = (kinds.index(one.spell.kind), states.index(one.state))
        what = (one.spell.cluster, by_number(one.spell.subject), one.id)
        return (not one.stands, not one.pages, *place, one.change or 0.0, *what)

    return tuple(sorted(found, key=rank))


def _explained(one: Alarm, by: Alarm | None) -> Alarm:
    """An alarm that another one pages for, and who looks after that looks after both.

    One that is mended explains the rest as long as it is told: medians of the newest runs lag behind.
    """
    if by is None or not one.stands or by.state is State.GONE:
        return one
    others = None if by.pages else by.acknowledged
    return replace(one, pages=False, part_of=by.id, acknowledged=others if one.pages else one.acknowledged)


def by_state(alarms: Iterable[Alarm], runs: Collection[str]) -> dict[str, list[Alarm]]:
    """The alarms that no other one explains, as reports of some runs list them: an old one is fixed in none of them."""
    found: dict[str, list[Alarm]] = {"new": [], "ongoing": [], "fixed": []}
    for one in alarms:
        is_told = not one.part_of and (one.stands or one.spell.mended_by in runs)
        if is_told and (state := _LISTED.get(one.state)):
            found[state].append(one)
    return found


def least_worse(sd: float) -> float:
    """By how much a run is worse at least, as a logarithm, for it to be told from noise of so much."""
    return max(_LEAST_WORSE, _WORSE * sd)


def _alarm(spell: IncidentPeriod, said: Sequence[Acknowledgement], now_s: float) -> Alarm:
    told = last_told(spell)
    known = next((one for one in reversed(said) if _is_of(one, spell)), None)
    if spell.mended_s is not None or spell.gone_s is not None:
        ended = State.GONE if spell.mended_s is None else State.MENDED
        return Alarm(identity(spell), spell, ended, pages=False, acknowledged=known)
    state = State.NEW if spell.is_new else State.STILL
    if spell.is_newest and told == len(spell.runs) - 1:
        state = State.WORSE if told else State.NEW
    is_known = known is not None and spell.runs[told].time_s <= known.seen_s and now_s < known.until_s
    return Alarm(identity(spell), spell, state, pages=not is_known, acknowledged=known)


def identity(spell: IncidentPeriod) -> str:
    """What a spell is called for as long as it lasts."""
    facts = [spell.kind.value, spell.cluster, spell.subject, spell.token]
    return hashlib.sha256(json.dumps(facts).encode("ascii")).hexdigest()[:_ID_DIGITS]


def last_told(spell: IncidentPeriod) -> int:
    """The run of a spell, by its number, on which it began or became worse than it was when it was last told."""
    told = 0
    for number, run in enumerate(spell.runs[1:], 1):
        known = [one.level for one in spell.runs[told : min(number, told + _TOLD_BY)]]
        noise = spell.sd * math.hypot(1, median_sd(len(known)))
        if run.level - statistics.median(known) > least_worse(noise):
            told = number
    return told


def acknowledge(alarm: Alarm, *, why: str, owner: str, until_s: float, time_s: float) -> Event:
    """That somebody looks after an alarm, as the history keeps it."""
    spell = alarm.spell
    body = {
        "why": why,
        "owner": owner,
        "until_s": until_s,
        # By these it is found again, even where its beginning turns out to be another run.
        "alarm": spell.kind.value,
        "things": sorted(spell.things),
        "seen_s": spell.runs[-1].time_s,
    }
    return Event(ACKNOWLEDGE, alarm.id, spell.cluster, time_s, body)


def acknowledgements(events: Iterable[Event]) -> tuple[Acknowledgement, ...]:
    """What of events is acknowledged; what cannot be read is not."""
    found = (_acknowledgement(event) for event in events if event.kind == ACKNOWLEDGE)
    return tuple(one for one in found if one is not None)


def _acknowledgement(event: Event) -> Acknowledgement | None:
    body = event.body
    try:
        return Acknowledgement(
            event.subject,
            Kind(body["alarm"]),
            event.cluster,
            frozenset(map(str, body["things"])),
            float(body["seen_s"]),
            str(body["why"]),
            str(body["owner"]),
            float(body["until_s"]),
            event.id,
        )
    except (KeyError, TypeError, ValueError):  # of a later release
        return None


def _is_of(said: Acknowledgement, spell: IncidentPeriod) -> bool:
    """Whether it was this spell that somebody has acknowledged: of the same things, and lasting at that time."""
    is_of_things = (said.kind, said.cluster) == (spell.kind, spell.cluster) and not spell.things.isdisjoint(said.things)
    return is_of_things and spell.begin_s <= said.seen_s and (spell.mended_s is None or said.seen_s < spell.mended_s)


# -- On which runs something was wrong with a row, a node or a cluster, by its history: what alarms are made of --


#: What comes back so soon after it was mended was not: some runs are of one weekday.
AGAIN_S = 7 * SECONDS_PER_DAY

#: Good runs in a row by which a regression is mended: one run at the limit is fast by chance.
_GOOD_RUNS = 2

#: After so many days without a figure of a row, or a job on a node, while its cluster has others, that is told.
_AWAY_DAYS = 2


@dataclass(frozen=True)
class Period:
    """Runs, by their numbers, on which something was wrong."""

    wrong: tuple[int, ...]
    #: The run by which it was mended, ``None`` while it lasts.
    mended: int | None
    #: The good runs in a row that it has by now, of those that would mend it.
    good: int = 0


def periods(wrong: Sequence[bool | None], good_runs: int = 1, times_s: Sequence[float] = ()) -> tuple[Period, ...]:
    """When something was wrong, by whether it was on each run, ``None`` where that run cannot tell.

    It is mended by so many good runs in a row; a run that cannot tell neither mends nor raises anything. What is
    back within :data:`AGAIN_S` goes on, where the times of the runs are known.
    """
    found: list[Period] = []
    since: list[int] = []
    good = 0
    for run, one in enumerate(wrong):
        if one and not since and found and times_s and times_s[run] - times_s[found[-1].mended or 0] <= AGAIN_S:
            since = [*found.pop().wrong]
        if one or (one is None and since):
            since.append(run)
        if one:
            good = 0
        elif one is False and since:
            good += 1
            if good == good_runs:
                found.append(Period(tuple(since), run))
                since, good = [], 0
    return (*found, Period(tuple(since), None, good)) if since else tuple(found)


def raised(
    spell: IncidentPeriod,
    seen: Sequence[Occurrence],
    wrong: Sequence[bool | None],
    good_runs: int = 1,
    *,
    goes_on: bool = True,
) -> Iterator[IncidentPeriod]:
    """When something was wrong: a spell like this one for each time, from the run that raised it to its end.

    Args:
        spell: What it is of.
        seen: All runs on which it could be seen.
        wrong: Whether it was on each of them, ``None`` where that run cannot tell.
        good_runs: How many in a row end it.
        goes_on: Whether what is back soon is the same as before.
    """
    mended_s = -math.inf
    for episode in periods(wrong, good_runs, [one.time_s for one in seen] if goes_on else ()):
        first = seen[episode.wrong[0]]
        ended = None if episode.mended is None else seen[episode.mended]
        yield replace(
            spell,
            token=f"{spell.token} {first.run_id}".strip(),
            runs=tuple(seen[run] for run in episode.wrong),
            begin_s=max(mended_s, first.time_s),
            is_newest=episode.wrong[-1] == len(seen) - 1,
            last_s=seen[-1].time_s,
            mended_s=None if ended is None else ended.time_s,
            mended_by="" if ended is None else ended.run_id,
            good_runs=episode.good,
            ends_after=good_runs,
        )
        mended_s = mended_s if ended is None else ended.time_s


def regressions(key: ExperimentKey, past: RowHistory) -> Iterator[IncidentPeriod]:
    """When a row was slower than it may be."""
    runs = past.judged
    slow = [_is_slow(run) for run in runs]
    if True not in slow:
        return
    seen = [Occurrence(run.run_id, run.time_s, math.log(run.judged_s)) for run in runs]
    things, sigma = _things(key, past), (past.noise() or PRIOR).sigma
    row = IncidentPeriod(
        Kind.REGRESSION, key.cluster, key.row, things, key.experiment, sd=sigma, is_always=False not in slow
    )
    for spell in raised(row, seen, slow, _GOOD_RUNS):
        begin_s = spell.runs[0].time_s
        before = [one.level for one, bad in zip(seen, slow, strict=True) if bad is False and one.time_s < begin_s]
        yield replace(spell, usual=statistics.median(before[-COMPARED:]) if before else None)


def _is_slow(run: Point) -> bool | None:
    if run.outcome == outcomes.REGRESSED.word:
        return True
    return None if run.outcome in outcomes.SLOW else False


def _things(key: ExperimentKey, past: RowHistory) -> frozenset[str]:
    """A row's experiment, and its definitions, which some records know alone."""
    return frozenset(f"{key.row} {name}" for name in (key.experiment, *(point.definition for point in past.points)))


def drifts(key: ExperimentKey, past: RowHistory) -> Iterator[IncidentPeriod]:
    """When a row's newest runs were slower than its first ones, by what is the row's own of them."""
    if not warned_runs(past.adjusted_seconds):
        return
    row = IncidentPeriod(
        *(Kind.DRIFT, key.cluster, key.row, _things(key, past), key.experiment), sd=(past.noise() or PRIOR).sigma
    )
    times = [(run.run_id, run.time_s) for run in past.counted]
    for one in _drifts(row, times, past.adjusted_seconds, past.drifting):
        yield replace(one, last_s=past.runs[-1].time_s)


def _drifts(
    spell: IncidentPeriod,
    runs: Sequence[tuple[str, float]],
    values_s: Sequence[float],
    found: Drifting | ClusterDrifting | None,
) -> Iterator[IncidentPeriod]:
    """When the newest runs were slower than the first ones: by runs and their times, and what they took."""
    logs, warned = [*map(math.log, values_s)], frozenset(warned_runs(values_s))
    if not warned:
        return
    # The newest runs of one run are those of the next one but for one, so that their medians hang together.
    sd = spell.sd * median_sd(NEWEST) * math.sqrt(2)
    levels = (statistics.median(logs[max(0, number + 1 - NEWEST) : number + 1]) for number in range(len(logs)))
    seen = [Occurrence(*run, level) for run, level in zip(runs, levels, strict=True)]
    usual = statistics.median(logs[:REFERENCE_JOBS])
    before_s = -math.inf
    for one in raised(
        replace(spell, sd=sd, usual=usual), seen, [number in warned for number in range(len(logs))], goes_on=False
    ):
        if found is None or one.mended_s is not None:
            yield one
        else:
            # An acknowledgement is of the same drift on whichever of the runs that it may have begun it was given.
            begin_s = max(before_s, min(one.begin_s, found.since.time_s))
            yield replace(one, begin_s=begin_s, since_s=found.since.begin_s, changes=found.changes)
        before_s = one.mended_s or before_s


def whole_cluster(cluster: str) -> str:
    """What an alarm of all rows of a cluster is of."""
    return f"cluster {cluster}"


def _of_cluster(kind: Kind, cluster: str, together: ClusterHistory) -> IncidentPeriod:
    subject, noise = whole_cluster(cluster), together.before.noise
    return IncidentPeriod(kind, cluster, subject, frozenset({subject}), "", sd=0.0 if noise is None else noise.sigma)


def incidents(cluster: str, together: ClusterHistory) -> Iterator[IncidentPeriod]:
    """When a cluster was slower for all of its rows than its runs differ by."""
    level, seen, told = 0.0, [], []
    for number, run in enumerate(together.runs):
        effect = together.before.effect(number)
        level = level if effect is None else effect.value  # a run of few rows says nothing
        seen.append(Occurrence(run.name, run.time_s, level))
        told.append(None if effect is None else effect.is_incident)
    spell = replace(_of_cluster(Kind.INCIDENT, cluster, together), usual=0.0)
    runs = {run.name: run for run in together.runs}
    for one in raised(spell, seen, told, _GOOD_RUNS):
        yield replace(one, changes=together.changed(runs[one.runs[0].run_id]))


def cluster_drifts(cluster: str, together: ClusterHistory) -> Iterator[IncidentPeriod]:
    """When the newest runs of a cluster were slower than its first ones for its rows together."""
    effects = together.before.effects
    if together.before.noise is None:
        return
    runs = [(together.runs[number].name, together.runs[number].time_s) for number in effects]
    ratios = [math.exp(effect) for effect in effects.values()]
    yield from _drifts(_of_cluster(Kind.DRIFT, cluster, together), runs, ratios, together.drifting)


def slow_nodes(cluster: str, now: Sequence[SlowNode], before: Sequence[SlowNode]) -> Iterator[IncidentPeriod]:
    """When nodes made jobs slow.

    Args:
        cluster: Where they are.
        now: Who is named by all runs.
        before: Who was named before the newest one.
    """
    ordered = sorted(now, key=lambda one: one.accusing[0].time_s)
    for number, one in enumerate(ordered):
        nodes = frozenset(one.nodes)
        earlier = [other for other in ordered[:number] if not nodes.isdisjoint(other.nodes)]
        known = [other for other in before if not other.mended and not nodes.isdisjoint(other.nodes)]
        accusing = {point.run_id: point for point in one.accusing}
        ended = _fast_again(one) if one.mended else None
        # What a node costs is told once for all of its jobs, so that it never becomes worse.
        level = -math.log1p(one.change)
        yield IncidentPeriod(
            Kind.NODE,
            cluster,
            one.name,
            nodes,
            f"{len(earlier)}",
            tuple(Occurrence(point.run_id, point.time_s, level) for point in accusing.values()),
            begin_s=max([one.accusing[0].time_s, *(other.accusing[-1].time_s for other in earlier)]),
            last_s=max(point.time_s for point in (*one.accusing, *one.clearing)),
            mended_s=None if ended is None else ended.time_s,
            mended_by="" if ended is None else ended.run_id,
            usual=0.0,
            is_new=not known,
        )


def _fast_again(one: SlowNode) -> Point:
    """The first job that was not slow after the last one that was."""
    last = one.accusing[-1]
    after = (point for point in one.clearing if point.time_s > last.time_s)
    return min(after, key=lambda point: point.time_s, default=last)


def incident_periods_of(
    cluster: str,
    runs: Mapping[ExperimentKey, Sequence[Point]],
    excluded: Collection[str] = (),
    accepted: Mapping[str, Accepted] | None = None,
    slow_before: Sequence[SlowNode] | None = None,
    nodes: Nodes | None = None,
) -> tuple[IncidentPeriod, ...]:
    """All that was wrong on a cluster, and is or was mended a few days before its newest run at most.

    Args:
        cluster: Its name.
        runs: All its jobs, by row and experiment.
        excluded: The runs that do not count.
        accepted: By row, what the cluster has accepted: runs of drift begin with that.
        slow_before: The nodes that were slow before the newest run, where that is known; else it is found out.
        nodes: All nodes, by these runs, where somebody has looked at them.
    """
    jobs = [point for points in runs.values() for point in points if point.run_id not in excluded]
    newest = max(jobs, key=lambda point: point.time_s, default=None)
    if newest is None:
        return ()
    nodes = nodes or Nodes(runs, excluded)
    if nodes.slow and slow_before is None:
        before = {key: [one for one in points if one.run_id != newest.run_id] for key, points in runs.items()}
        slow_before = Nodes(before, excluded).slow
    rows = tuple(ClusterSeries(runs, excluded, nodes).newest(accepted or {}))
    together = ClusterHistory({row: past for row, _, past in rows})
    beside = ClusterAdjustment(together)
    of_nodes = tuple(slow_nodes(cluster, nodes.slow, slow_before or ()))
    of_cluster = tuple(incidents(cluster, together))
    found = [*of_nodes, *of_cluster]
    for row, experiment, past in rows:
        key = ExperimentKey(row, cluster, experiment)
        slow = [_with_node(one, past, nodes.slow, of_nodes) for one in regressions(key, past)]
        explained = identity(slow[-1]) if slow else ""
        together_past = replace(past, beside=beside)
        found += [*slow, *(replace(one, part_of=explained) for one in drifts(key, together_past))]
    found += (_with_incident(one, of_cluster) for one in cluster_drifts(cluster, together))
    told_s = newest.time_s - AGAIN_S  # until then, an alarm that is mended may go on
    known = [_as_of(newest.time_s, spell) for spell in found]
    ends = ((spell, spell.gone_s if spell.mended_s is None else spell.mended_s) for spell in known)
    return tuple(spell for spell, end_s in ends if end_s is None or end_s >= told_s)


def _with_node(
    spell: IncidentPeriod, past: RowHistory, slow: Iterable[SlowNode], of_nodes: Iterable[IncidentPeriod]
) -> IncidentPeriod:
    """A regression, as a part of the alarm of a node if most jobs of its newest run had it, and were slow by that."""
    newest, usual = spell.runs[-1], spell.usual
    if spell.mended_s is not None or usual is None:
        return spell
    jobs = [point for point in past.points if point.run_id == newest.run_id]
    for one in slow:
        had = sum(one.ran_in(point.nodes, point.time_s) for point in jobs)
        left = newest.level + math.log1p(one.change) - usual
        if not one.mended and 2 * had > len(jobs) and left <= least_worse(spell.sd):
            node = next(of for of in of_nodes if of.mended_s is None and of.things == frozenset(one.nodes))
            return replace(spell, part_of=identity(node))
    return spell


def _with_incident(spell: IncidentPeriod, of_cluster: Iterable[IncidentPeriod]) -> IncidentPeriod:
    """A drift of all rows, as a part of the incident that lasted when it was raised, and lasts."""
    for one in of_cluster:
        if one.mended_s is None and spell.mended_s is None and one.runs[0].time_s <= spell.runs[0].time_s:
            return replace(spell, part_of=identity(one))
    return spell


def _as_of(now_s: float, spell: IncidentPeriod) -> IncidentPeriod:
    """A spell at the time of its cluster's newest job."""
    days = (now_s - spell.last_s) / SECONDS_PER_DAY
    if spell.mended_s is not None or days < _AWAY_DAYS:
        return spell
    gone_s = spell.last_s + GONE_DAYS * SECONDS_PER_DAY
    return replace(spell, is_away=True, is_newest=False, is_new=False, gone_s=gone_s if now_s >= gone_s else None)


def alarms_of(
    history: History,
    cluster: str,
    accepted: Mapping[str, Mapping[str, Accepted]],
    *,
    now_s: float,
    until_s: float = math.inf,
    measured: Collection[str] | None = None,
    slow_before: Sequence[SlowNode] | None = None,
    read: Callable[[str], ClusterSeries] | None = None,
) -> tuple[Alarm, ...]:
    """The alarms of a cluster, by all runs until a time, as a run tells them that measured some rows.

    Where no run tells them, ``measured`` is ``None``. For the other arguments see :func:`incident_periods_of`.

    Raises:
        HistoryError: The history did not answer.
    """
    lines = series_of_cluster(history, cluster) if read is None else read(cluster)
    runs, nodes = lines.runs, lines.nodes
    if any(point.time_s > until_s for points in runs.values() for point in points):
        runs = {key: [point for point in points if point.time_s <= until_s] for key, points in runs.items()}
        nodes = None
    figures = {row: of_row[cluster] for row, of_row in accepted.items() if cluster in of_row}
    spells = incident_periods_of(cluster, runs, lines.excluded, figures, slow_before, nodes)
    found = [one if _is_seen(one, measured) else replace(one, is_newest=False, is_new=False) for one in spells]
    return alarms(found, acknowledgements(history.events(cluster)), now_s)


def _is_seen(spell: IncidentPeriod, measured: Collection[str] | None) -> bool:
    """Whether a run that measured these rows says anything of a spell."""
    if measured is None:
        return True
    is_of_row = spell.kind in OF_ROWS and spell.subject != whole_cluster(spell.cluster)
    return spell.subject in measured if is_of_row else bool(measured)


def alarms_of_records(
    history: History,
    records: Iterable[Record],
    accepted: Mapping[str, Mapping[str, Accepted]],
    now_s: float,
    slow_before: Sequence[SlowNode] | None = None,
    read: Callable[[str], ClusterSeries] | None = None,
) -> tuple[Alarm, ...]:
    """The alarms of the rows that these are records of, and of their clusters' nodes, by the runs until then.

    Args:
        history: It has the records as well, where it is complete.
        records: Of one run.
        accepted: By row and cluster, what clusters have accepted.
        now_s: Seconds since the epoch, by which an acknowledgement has ended.
        slow_before: The nodes that were slow before, where that is known.
        read: What reads a cluster's runs, where they have been read already.

    Raises:
        HistoryError: The history did not answer.
    """
    of_cluster: dict[str, list[Record]] = {}
    for record in records:
        if (key := series_key(record)) is not None:
            of_cluster.setdefault(key.cluster, []).append(record)
    found: list[Alarm] = []
    for cluster, ran in of_cluster.items():
        rows = {record.row.id for record in ran}
        until_s = max(map(record_time_s, ran)) or math.inf
        known = alarms_of(
            history,
            cluster,
            {row: of_row for row, of_row in accepted.items() if row in rows},
            now_s=now_s,
            until_s=until_s,
            measured={record.row.id for record in ran if points_of(record)},
            slow_before=slow_before,
            read=read,
        )
        found += (
            one
            for one in known
            if one.spell.kind not in OF_ROWS or one.spell.subject in {*rows, whole_cluster(cluster)}
        )
    return tuple(found)
