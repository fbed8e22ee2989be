"""Reports of runs, each built once: from the records, the history, and the directories of runs."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.common.redact import quoted
from pytest_gsw.history.alarms import Kind, alarms_of_records
from pytest_gsw.history.comparison import ClusterTold, cluster_told
from pytest_gsw.history.database import HistoryAwayError, HistoryError
from pytest_gsw.history.model import Point, SeriesKey, Told, cluster_of, points_of, record_time_s, series_key
from pytest_gsw.history.model import by_run as newest_of
from pytest_gsw.history.row_history import Lines, Past, Together, lines_of, pasts_of_records
from pytest_gsw.history.store import EXCLUDE, History
from pytest_gsw.performance.verdict import Outcome, compare
from pytest_gsw.reports.run_report import Listed, Row, Run, RunReport, page_names, since_of
from pytest_gsw.results import attention
from pytest_gsw.results.facts import NO_CLUSTER
from pytest_gsw.results.junit_names import read_noted
from pytest_gsw.results.outcomes import ERROR
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import inconclusive_text
from pytest_gsw.results.run_id import RUNS, begin_of
from pytest_gsw.results.unjudged import Begun, begun, newest_begun
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Accepted

#: How many runs before are asked what they came to: as many as a row's plot has.
EARLIER_RUNS = 200
#: The newest runs of a row that its page lists.
LISTED_RUNS = 14
#: Outcomes that follow from the figure and the limit alone.
_BY_FIGURE = frozenset({Outcome.PASSED.value, Outcome.IMPROVED.value, Outcome.REGRESSED.value})

#: By row and cluster, what clusters have accepted.
AllAccepted = Mapping[str, Mapping[str, Accepted]]


class Once:
    """A history of which each cluster is read once: all that is shown is of one moment.

    Args:
        history: All runs.
        lines: By cluster, the nights that somebody has read already.
    """

    def __init__(self, history: History, lines: Mapping[str, Lines] | None = None) -> None:
        self.history = history
        self.read = dict(lines or {})

    def lines(self, cluster: str) -> Lines:
        """The nights of a cluster."""
        if cluster not in self.read:
            self.read[cluster] = lines_of(self.history, cluster)
        return self.read[cluster]


def accepted_in(tables: Sequence[Path], records: Iterable[Record]) -> AllAccepted | None:
    """By row and cluster, what clusters have accepted; ``None`` where that counts for none of the records."""
    if all(record.reference != "accepted" for record in records):
        return None
    return {row.id: row.accepted for row in load_tables(tables)}


# -- reports ---------------------------------------------------------------------------------------


def run_report(
    records: Iterable[Record],
    run: Run | None = None,
    history: History | None = None,
    accepted: AllAccepted | None = None,
    known: Once | None = None,
) -> RunReport:
    """The report of one run, without secrets.

    Args:
        records: Its records.
        run: What these do not say.
        history: The runs before; ``None`` where there are none.
        accepted: By row and cluster, what clusters have accepted: the runs that count begin with that.
        known: The history, of which something has been read already.

    Raises:
        HistoryError: The history did not answer.
    """
    listed = list(records)
    run_id = listed[0].run.id if listed else "" if run is None else run.directory.name
    (found,) = _built({run_id: listed}, {} if run is None else {run_id: run}, history, accepted, known)
    return found


def run_reports(
    records: Iterable[Record],
    history: History | None = None,
    runs: Mapping[str, Run] | None = None,
    accepted: AllAccepted | None = None,
) -> tuple[RunReport, ...]:
    """The reports of several runs, the newest first; ``runs`` is by id what their records do not say."""
    by_run: dict[str, list[Record]] = {run_id: [] for run_id in runs or {}}
    for record in newest_of(records).values():
        by_run.setdefault(record.run.id, []).append(record)
    listed = {run_id: (runs or {}).get(run_id) or Run(RUNS / run_id) for run_id in by_run}
    found = _built(by_run, listed, history, accepted)
    return tuple(sorted(found, key=lambda one: (one.begin_s or 0.0, one.run_id), reverse=True))


def _built(
    by_run: Mapping[str, Sequence[Record]],
    runs: Mapping[str, Run],
    history: History | None,
    accepted: AllAccepted | None,
    known: Once | None = None,
) -> list[RunReport]:
    known = known or (None if history is None else Once(history))
    # A session quotes what it records; a record of an earlier release may hold anything.
    shown = {run_id: [quoted(record, os.environ) for record in of_run] for run_id, of_run in by_run.items()}
    told = {run_id: _begun(run) for run_id, run in runs.items()}
    pasts: Mapping[SeriesKey, Past] = {}
    earlier: Mapping[tuple[str, str], tuple[Told, ...]] = {}
    if known is not None:
        every = [record for of_run in shown.values() for record in of_run]
        pasts = pasts_of_records(known.history, every, accepted, known.lines)
        earlier = _told_of(known, shown, told.values())
    return [
        _report(quoted(name, os.environ), of_run, told.get(name) or Run(Path()), known, pasts, accepted or {}, earlier)
        for name, of_run in shown.items()
    ]


def _begun(run: Run) -> Run:
    """A run with what its session wrote down before it began."""
    known = begun(run.directory)
    noted = quoted(read_noted(run.directory), os.environ)
    missing = {quoted(name, os.environ): quoted(why, os.environ) for name, why in run.missing.items()}
    return replace(run, missing=missing, noted=noted, begun_s=None if known is None else known.begun_s or None)


def _report(
    run_id: str,
    records: Sequence[Record],
    run: Run,
    known: Once | None,
    pasts: Mapping[SeriesKey, Past],
    accepted: AllAccepted,
    earlier: Mapping[tuple[str, str], tuple[Told, ...]],
) -> RunReport:
    rows, broken = _rows(records, pasts, earlier)
    alarms = run.alarms or ()
    if run.alarms is None and known is not None:
        alarms = quoted(alarms_of_records(known.history, records, accepted, time.time(), read=known.lines), os.environ)
    theirs = [key for record in records if (key := series_key(record)) is not None and key in pasts]
    nodes = {key.cluster: of_cluster for key in theirs if (of_cluster := pasts[key].nodes) is not None}
    slow = {cluster: tuple(one for one in of.slow if not one.mended) for cluster, of in nodes.items()}
    night = RunReport(
        run_id,
        replace(run, missing={**run.missing, **broken}),
        tuple(rows),
        slow_nodes={cluster: quoted(suspects, os.environ) for cluster, suspects in slow.items() if suspects},
        blamed_nodes={cluster: quoted(of.failing, os.environ) for cluster, of in nodes.items() if of.failing},
        sound_nodes={cluster: quoted(of.sound, os.environ) for cluster, of in nodes.items()},
        alarms=alarms,
        told=_together(records, pasts),
    )
    incidents = {seen.run_id for one in alarms if one.spell.kind is Kind.INCIDENT for seen in one.spell.nights}
    return replace(night, listed=_listed(night.clusters, earlier, incidents))


def _together(records: Sequence[Record], pasts: Mapping[SeriesKey, Past]) -> dict[str, ClusterTold]:
    """By cluster, what its nights until then say of its rows together."""
    tonight: dict[str, dict[str, Point]] = {}
    asked: dict[str, Together] = {}
    for record in records:
        key, points = series_key(record), points_of(record)
        beside = None if key is None or key not in pasts else pasts[key].beside
        if key is not None and points and beside is not None:
            tonight.setdefault(key.cluster, {})[key.row] = points[0].point
            asked[key.cluster] = beside.together
    found = {}
    for cluster, points_of_rows in tonight.items():
        until_s = max(point.time_s for point in points_of_rows.values())
        before = asked[cluster].until(until_s, next(iter(points_of_rows.values())).run_id)
        found[cluster] = quoted(cluster_told(before.with_tonight(points_of_rows)), os.environ)
    return found


# -- rows ------------------------------------------------------------------------------------------


def _rows(
    records: Sequence[Record],
    pasts: Mapping[SeriesKey, Past],
    earlier: Mapping[tuple[str, str], tuple[Told, ...]],
) -> tuple[list[Row], dict[str, str]]:
    """The rows of a run, and by node id why a record cannot be shown."""
    names = page_names(record.row.node_id for record in records)
    rows, broken = [], {}
    for record in records:
        try:
            row = Row(record, names[record.row.node_id], _past_of(record, pasts), earlier=_before(record, earlier))
            if row.verdict is not None and row.needs is attention.INCONCLUSIVE:
                inconclusive_text(record, row.verdict)
            rows.append(replace(row, since=since_of(row)))
        except ValueError as error:  # numbers that nothing can be made of
            broken[record.row.node_id] = f"its record cannot be shown: {error}"
    return rows, broken


def _past_of(record: Record, pasts: Mapping[SeriesKey, Past]) -> Past:
    """What is known of a row until a run of it, that run included."""
    key = series_key(record)
    if key is None:
        return Past()
    tonight = [point.point for point in points_of(record)]
    until_s = max([record_time_s(record), *(point.time_s for point in tonight)])
    return pasts.get(key, Past()).without(record.run.id, until_s, tonight).with_tonight(tonight)


def _before(record: Record, told: Mapping[tuple[str, str], tuple[Told, ...]]) -> tuple[Told, ...]:
    """What the runs before came to for a row; one that judged the same job again was none."""
    time_s = record_time_s(record)
    of_row = told.get((record.run.cluster, record.row.id), ())
    return tuple(one for one in of_row if one.run_id != record.run.id and one.time_s < time_s)


# -- what runs before came to ------------------------------------------------------------------------


def _told_of(
    known: Once, by_run: Mapping[str, Collection[Record]], asked: Collection[Run]
) -> Mapping[tuple[str, str], tuple[Told, ...]]:
    """By cluster and row, what the runs of the history came to, those that somebody has excluded left out.

    Rows that were never judged are errors, in those of the runs that still have a directory beside those asked for.
    """
    clusters = {record.run.cluster for records in by_run.values() for record in records}
    clusters = (clusters | {run.noted.cluster for run in asked}) - {NO_CLUSTER, ""}
    there = [
        one for runs in sorted({run.directory.parent for run in asked}) for one in newest_begun(runs, EARLIER_RUNS)
    ]
    found: dict[tuple[str, str], tuple[Told, ...]] = {}
    for cluster in clusters:
        excluded = {event.subject for event in known.history.events(cluster, EXCLUDE)}
        told = known.history.outcomes(cluster, EARLIER_RUNS + len(by_run))
        for row, of_row in _with_never_judged(told, [one for one in there if one.cluster == cluster]).items():
            found[cluster, row] = tuple(one for one in of_row if one.run_id not in excluded)
    return found


def _with_never_judged(told: Mapping[str, tuple[Told, ...]], there: Iterable[Begun]) -> Mapping[str, tuple[Told, ...]]:
    """By row, what the runs of a cluster came to, with an error for each row that one of them never judged."""
    found = {row: {one.run_id: one for one in of_row} for row, of_row in told.items()}
    times_s: dict[str, float] = {}
    for one in (one for of_row in told.values() for one in of_row):
        times_s[one.run_id] = max(one.time_s, times_s.get(one.run_id, one.time_s))
    for run in there:
        name = run.directory.name
        missing = [row for row in run.rows if name not in found.get(row, {})]
        # Of a run with records that the history does not know, it was to know nothing.
        if not missing or (name not in times_s and run.has_records) or run.is_owned:
            continue
        for row in missing:
            found.setdefault(row, {})[name] = Told(name, times_s.get(name, run.begun_s), ERROR.word)
    return {row: tuple(sorted(of_row.values(), key=lambda one: one.time_s)) for row, of_row in found.items()}


def _listed(
    clusters: Collection[str], told: Mapping[tuple[str, str], tuple[Told, ...]], incidents: Collection[str]
) -> tuple[Listed, ...]:
    """The runs of clusters, the oldest first; by their ids, which were incidents."""
    found: dict[str, list[Told]] = {}
    for (cluster, _), of_row in told.items():
        for one in of_row if cluster in clusters else ():
            found.setdefault(one.run_id, []).append(one)
    runs = (
        Listed(
            run_id,
            begin_of(run_id, min(one.time_s for one in of_run)),
            Counter(one.outcome for one in of_run),
            run_id in incidents,
        )
        for run_id, of_run in found.items()
    )
    return tuple(sorted(runs, key=lambda run: (run.time_s, run.run_id)))


# -- what runs before were judged by -----------------------------------------------------------------


def judged_by(rows: Iterable[Row], history: History) -> dict[tuple[str, str], dict[str, float]]:
    """By row and cluster, the seconds that each of its newest runs was judged by, where that is not today's figure.

    Records are read of such rows alone: it takes longer than all else that a page needs.

    Raises:
        HistoryAwayError: The history did not answer.
    """
    wanted: dict[str, set[str]] = {}
    for row in rows:
        newest = row.past.measured[-LISTED_RUNS:]
        if any(_is_unlike(row, night) for night in newest):
            for night in newest:
                wanted.setdefault(night.run_id, set()).add(row.record.row.id)
    found: dict[tuple[str, str], dict[str, float]] = {}
    for run_id, of_run in wanted.items():
        try:
            records = history.records(run_id, of_run)
        except HistoryAwayError:
            raise
        except HistoryError:  # a later release wrote one of them
            continue
        for record in records:
            if record.judged is not None:
                found.setdefault((record.row.id, cluster_of(record)), {})[run_id] = record.judged.reference_s
    return found


def held_today(row: Row) -> tuple[float | None, str]:
    """The seconds that the row is held against, and what they are: the same that its verdict is of."""
    judged = row.record.judged_metric.key
    for held, name in (
        (row.record.figures.accepted, "the accepted"),
        (row.record.figures.documented, "the documented"),
    ):
        if value := held.get(judged):
            return value, name
    return None, ""


def held_then(row: Row, night: Point, known: Mapping[str, float]) -> float | None:
    """The seconds that a run of the row was judged by; ``None`` where they are not known, and were not today's."""
    found = known.get(night.run_id)
    if found is not None or (night.run_id != row.record.run.id and _is_unlike(row, night)):
        return found
    return held_today(row)[0]


def _is_unlike(row: Row, night: Point) -> bool:
    """Whether what a run came to is not what today's figure and tolerance give."""
    held_s, _ = held_today(row)
    if held_s is None or night.outcome not in _BY_FIGURE:
        return False
    return compare(night.judged_s, held_s, row.record.row.tolerance).value != night.outcome
