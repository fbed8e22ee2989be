"""On which nights something was wrong with a row, a node or a cluster, by its history: what alarms are made of."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_gsw.history.alarms import OF_ROWS, Alarm, Kind, Seen, Spell, acknowledgements, alarms, identity, least_worse
from pytest_gsw.history.episodes import AGAIN_S, episodes
from pytest_gsw.history.model import LineKey, Point, points_of, record_time_s, series_key
from pytest_gsw.history.past import COMPARED, GONE_DAYS, Lines, Past, lines_of
from pytest_gsw.history.store import History
from pytest_gsw.history.suspects import Nodes, Suspect
from pytest_gsw.history.together import Beside, Together
from pytest_gsw.performance.drift import NEWEST, warned_nights
from pytest_gsw.performance.figures import SECONDS_PER_DAY
from pytest_gsw.performance.noise import PRIOR, REFERENCE_JOBS, median_sd
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import Accepted

#: Good nights in a row by which a regression is mended: one night at the limit is fast by chance.
_GOOD_NIGHTS = 2

#: After so many days without a figure of a row, or a job on a node, while its cluster has others, that is told.
_AWAY_DAYS = 2


def regressions(key: LineKey, past: Past) -> Iterator[Spell]:
    """When a row was slower than it may be."""
    nights = past.judged
    slow = [_is_slow(night) for night in nights]
    found = episodes(slow, _GOOD_NIGHTS, [night.time_s for night in nights])
    if not found:
        return
    seen = [Seen(night.run_id, night.time_s, math.log(night.judged_s)) for night in nights]
    noise = past.noise() or PRIOR
    mended_s = -math.inf
    for episode in found:
        raised = seen[episode.wrong[0]]
        ended = None if episode.mended is None else seen[episode.mended]
        before = [one.level for one, night in zip(seen, nights, strict=True) if _is_good(night, raised.time_s)]
        yield Spell(
            Kind.REGRESSION,
            key.cluster,
            key.row,
            _things(key, past),
            f"{key.experiment} {raised.run_id}",
            tuple(seen[night] for night in episode.wrong),
            begin_s=max(mended_s, raised.time_s),
            sd=noise.sigma,
            is_newest=episode.wrong[-1] == len(nights) - 1,
            last_s=nights[-1].time_s,
            mended_s=None if ended is None else ended.time_s,
            mended_by="" if ended is None else ended.run_id,
            good_nights=episode.good,
            ends_after=_GOOD_NIGHTS,
            usual=statistics.median(before[-COMPARED:]) if before else None,
            is_always=False not in slow,
        )
        mended_s = mended_s if ended is None else ended.time_s


def _is_slow(night: Point) -> bool | None:
    if night.outcome == outcomes.REGRESSED.word:
        return True
    return None if night.outcome in outcomes.SLOW else False


def _is_good(night: Point, before_s: float) -> bool:
    return night.time_s < before_s and _is_slow(night) is False


def _things(key: LineKey, past: Past) -> frozenset[str]:
    """A row's experiment, and its definitions: an earlier release's records do not say of which experiment they are."""
    return frozenset(f"{key.row} {name}" for name in (key.experiment, *(point.definition for point in past.points)))


def drifts(key: LineKey, past: Past) -> Iterator[Spell]:
    """When a row's newest nights were slower than its first ones, by what is the row's own of them."""
    if not warned_nights(past.own_s):
        return
    nights, found = past.counted, past.drifting
    begun = None if found is None else (found.since.begin_s, found.since.time_s, found.changes)
    times = [(night.run_id, night.time_s) for night in nights]
    sigma = (past.noise() or PRIOR).sigma
    for one in _drifts(key.cluster, key.row, _things(key, past), times, past.own_s, sigma, begun):
        yield replace(one, token=f"{key.experiment} {one.token}", last_s=past.nights[-1].time_s)


def _drifts(
    cluster: str,
    subject: str,
    things: frozenset[str],
    nights: Sequence[tuple[str, float]],
    values_s: Sequence[float],
    sigma: float,
    begun: tuple[float, float, Mapping[str, tuple[str, str]]] | None,
) -> Iterator[Spell]:
    """When the newest nights were slower than the first ones.

    Args:
        cluster: Where.
        subject: What drifts.
        things: What it is of.
        nights: The run of each night, and when that was.
        values_s: What each night took.
        sigma: The standard deviation of nights.
        begun: Of what drifts now: since when, the first time at which it may have begun, and what changed then.
    """
    warned = frozenset(warned_nights(values_s))
    if not warned:
        return
    logs = list(map(math.log, values_s))
    # The newest nights of one night are those of the next one but for one, so that their medians hang together.
    sd = sigma * median_sd(NEWEST) * math.sqrt(2)
    mended_s = -math.inf
    for episode in episodes([night in warned for night in range(len(nights))]):
        run_id, begin_s = nights[episode.wrong[0]]
        mended_by, end_s = ("", None) if episode.mended is None else nights[episode.mended]
        since_s, first_s, changes = begun if begun is not None and end_s is None else (None, begin_s, None)
        yield Spell(
            Kind.DRIFT,
            cluster,
            subject,
            things,
            run_id,
            tuple(Seen(*nights[n], statistics.median(logs[n + 1 - NEWEST : n + 1])) for n in episode.wrong),
            # An acknowledgement is of the same drift on whichever of the nights that it may have begun it was given.
            begin_s=max(mended_s, min(begin_s, first_s)),
            sd=sd,
            is_newest=episode.wrong[-1] == len(nights) - 1,
            last_s=nights[-1][1],
            mended_s=end_s,
            mended_by=mended_by,
            usual=statistics.median(logs[:REFERENCE_JOBS]),
            since_s=since_s,
            changes=changes,
        )
        mended_s = mended_s if end_s is None else end_s


def whole_cluster(cluster: str) -> str:
    """What an alarm of all rows of a cluster is of."""
    return f"cluster {cluster}"


def incidents(cluster: str, together: Together) -> Iterator[Spell]:
    """When a cluster was slower for all of its rows than its nights differ by."""
    nights = together.nights
    effects = [together.before.effect(number) for number in range(len(nights))]
    mended_s, level = -math.inf, 0.0
    seen = []
    for night, effect in zip(nights, effects, strict=True):
        level = level if effect is None else effect.value  # a night of few rows says nothing
        seen.append(Seen(night.name, night.time_s, level))
    told = [None if effect is None else effect.is_incident for effect in effects]
    for episode in episodes(told, _GOOD_NIGHTS, [night.time_s for night in nights]):
        raised = seen[episode.wrong[0]]
        ended = None if episode.mended is None else seen[episode.mended]
        noise = together.before.noise
        yield Spell(
            Kind.INCIDENT,
            cluster,
            whole_cluster(cluster),
            frozenset({whole_cluster(cluster)}),
            raised.run_id,
            tuple(seen[night] for night in episode.wrong),
            begin_s=max(mended_s, raised.time_s),
            sd=0.0 if noise is None else noise.sigma,
            is_newest=episode.wrong[-1] == len(nights) - 1,
            last_s=seen[-1].time_s,
            mended_s=None if ended is None else ended.time_s,
            mended_by="" if ended is None else ended.run_id,
            good_nights=episode.good,
            ends_after=_GOOD_NIGHTS,
            usual=0.0,
            changes=together.changed(nights[episode.wrong[0]]),
        )
        mended_s = mended_s if ended is None else ended.time_s


def cluster_drifts(cluster: str, together: Together) -> Iterator[Spell]:
    """When the newest nights of a cluster were slower than its first ones for its rows together."""
    effects, found, noise = together.before.effects, together.drifting, together.before.noise
    nights = [(together.nights[number].name, together.nights[number].time_s) for number in effects]
    if noise is None:
        return
    begun = None
    if found is not None:
        begun = found.since.begin_s, found.since.time_s, found.changes
    ratios = [math.exp(effect) for effect in effects.values()]
    things = frozenset({whole_cluster(cluster)})
    yield from _drifts(cluster, whole_cluster(cluster), things, nights, ratios, noise.sigma, begun)


def slow_nodes(cluster: str, now: Sequence[Suspect], before: Sequence[Suspect]) -> Iterator[Spell]:
    """When nodes made jobs slow.

    Args:
        cluster: Where they are.
        now: Who is named by all nights.
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
        yield Spell(
            Kind.NODE,
            cluster,
            one.name,
            nodes,
            f"{len(earlier)}",
            tuple(Seen(point.run_id, point.time_s, level) for point in accusing.values()),
            begin_s=max([one.accusing[0].time_s, *(other.accusing[-1].time_s for other in earlier)]),
            sd=0.0,
            is_newest=False,
            last_s=max(point.time_s for point in (*one.accusing, *one.clearing)),
            mended_s=None if ended is None else ended.time_s,
            mended_by="" if ended is None else ended.run_id,
            usual=0.0,
            is_new=not known,
        )


def _fast_again(one: Suspect) -> Point:
    """The first job that was not slow after the last one that was."""
    last = one.accusing[-1]
    after = (point for point in one.clearing if point.time_s > last.time_s)
    return min(after, key=lambda point: point.time_s, default=last)


def spells_of(
    cluster: str,
    nights: Mapping[LineKey, Sequence[Point]],
    excluded: Collection[str] = (),
    accepted: Mapping[str, Accepted] | None = None,
    slow_before: Sequence[Suspect] | None = None,
    nodes: Nodes | None = None,
) -> tuple[Spell, ...]:
    """All that was wrong on a cluster, and is or was mended a few days before its newest night at most.

    Args:
        cluster: Its name.
        nights: All its jobs, by row and experiment.
        excluded: The runs that do not count.
        accepted: By row, what the cluster has accepted: nights of drift begin with that.
        slow_before: The nodes that were slow before the newest night, where that is known; else it is found out.
        nodes: All nodes, by these nights, where somebody has looked at them.
    """
    jobs = [point for points in nights.values() for point in points if point.run_id not in excluded]
    newest = max(jobs, key=lambda point: point.time_s, default=None)
    if newest is None:
        return ()
    nodes = nodes or Nodes(nights, excluded)
    if nodes.slow and slow_before is None:
        before = {key: [one for one in points if one.run_id != newest.run_id] for key, points in nights.items()}
        slow_before = Nodes(before, excluded).slow
    rows = tuple(Lines(nights, excluded, nodes).newest(accepted or {}))
    together = Together({row: past for row, _, past in rows})
    of_nodes = tuple(slow_nodes(cluster, nodes.slow, slow_before or ()))
    of_cluster = tuple(incidents(cluster, together))
    found = [*of_nodes, *of_cluster]
    for row, experiment, past in rows:
        key = LineKey(row, cluster, experiment)
        slow = [_with_node(one, past, nodes.slow, of_nodes) for one in regressions(key, past)]
        explained = identity(slow[-1]) if slow else ""
        beside = replace(past, beside=Beside(together, row))
        found += [*slow, *(replace(one, part_of=explained) for one in drifts(key, beside))]
    found += (_with_incident(one, of_cluster) for one in cluster_drifts(cluster, together))
    told_s = newest.time_s - AGAIN_S  # until then, an alarm that is mended may go on
    known = [_as_of(newest.time_s, spell) for spell in found]
    ends = ((spell, spell.gone_s if spell.mended_s is None else spell.mended_s) for spell in known)
    return tuple(spell for spell, end_s in ends if end_s is None or end_s >= told_s)


def _with_node(spell: Spell, past: Past, slow: Iterable[Suspect], of_nodes: Iterable[Spell]) -> Spell:
    """A regression, as a part of the alarm of a node if most jobs of its newest night had it, and were slow by that."""
    newest, usual = spell.nights[-1], spell.usual
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


def _with_incident(spell: Spell, of_cluster: Iterable[Spell]) -> Spell:
    """A drift of all rows, as a part of the incident that lasted when it was raised, and lasts."""
    for one in of_cluster:
        if one.mended_s is None and spell.mended_s is None and one.nights[0].time_s <= spell.nights[0].time_s:
            return replace(spell, part_of=identity(one))
    return spell


def _as_of(now_s: float, spell: Spell) -> Spell:
    """A spell at the time of its cluster's newest job."""
    days = (now_s - spell.last_s) / SECONDS_PER_DAY
    if spell.mended_s is not None or days < _AWAY_DAYS:
        return spell
    gone_s = spell.last_s + GONE_DAYS * SECONDS_PER_DAY
    return replace(spell, is_away=True, is_newest=False, is_new=False, gone_s=gone_s if now_s >= gone_s else None)


def alarms_of(
    history: History,
    cluster: str,
    accepted: Mapping[str, Accepted] | None = None,
    *,
    now_s: float,
    until_s: float = math.inf,
    measured: Collection[str] | None = None,
    slow_before: Sequence[Suspect] | None = None,
    read: Callable[[str], Lines] | None = None,
) -> tuple[Alarm, ...]:
    """The alarms of a cluster, by all nights until a time, as a run tells them that measured some rows.

    Where no run tells them, ``measured`` is ``None``. For the other arguments see :func:`spells_of`.

    Raises:
        HistoryError: The history did not answer.
    """
    lines = lines_of(history, cluster) if read is None else read(cluster)
    nights, nodes = lines.nights, lines.nodes
    if any(point.time_s > until_s for points in nights.values() for point in points):
        nights = {key: [point for point in points if point.time_s <= until_s] for key, points in nights.items()}
        nodes = None
    spells = spells_of(cluster, nights, lines.excluded, accepted, slow_before, nodes)
    found = [one if _is_seen(one, measured) else replace(one, is_newest=False, is_new=False) for one in spells]
    return alarms(found, acknowledgements(history.events(cluster)), now_s)


def _is_seen(spell: Spell, measured: Collection[str] | None) -> bool:
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
    slow_before: Sequence[Suspect] | None = None,
    read: Callable[[str], Lines] | None = None,
) -> tuple[Alarm, ...]:
    """The alarms of the rows that these are records of, and of their clusters' nodes, by the nights until then.

    Args:
        history: It has the records as well, where it is complete.
        records: Of one night.
        accepted: By row and cluster, what clusters have accepted.
        now_s: Seconds since the epoch, by which an acknowledgement has ended.
        slow_before: The nodes that were slow before, where that is known.
        read: What reads a cluster's nights, where they have been read already.

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
        figures = {row: accepted[row][cluster] for row in rows if cluster in accepted.get(row, {})}
        until_s = max(map(record_time_s, ran)) or math.inf
        known = alarms_of(
            history,
            cluster,
            figures,
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
