"""Nights from records and the history."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.common.redact import quoted
from pytest_gsw.history.alarms import Alarm, Kind
from pytest_gsw.history.model import Point, SeriesKey, Told, points_of, record_time_s, series_key
from pytest_gsw.history.model import by_run as newest_of
from pytest_gsw.history.past import Past, pasts_of_records
from pytest_gsw.history.spells import alarms_of_records
from pytest_gsw.history.store import History
from pytest_gsw.history.suspects import Failing, Sound, Suspect
from pytest_gsw.history.texts import ClusterTold, cluster_told
from pytest_gsw.history.together import Together
from pytest_gsw.reports.held import with_held
from pytest_gsw.reports.night import Night, Run
from pytest_gsw.reports.rows import Row, is_slow, page_names, worst_first
from pytest_gsw.reports.since import since_of
from pytest_gsw.reports.told import Once, listed_of, told_of
from pytest_gsw.results import attention
from pytest_gsw.results.junit_names import read_noted
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import inconclusive_text
from pytest_gsw.results.run_id import RUNS
from pytest_gsw.results.unjudged import begun
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Accepted


def accepted_in(tables: Sequence[Path], records: Iterable[Record]) -> Mapping[str, Mapping[str, Accepted]] | None:
    """By row and cluster, what clusters have accepted; ``None`` where that counts for none of the records."""
    if all(record.reference != "accepted" for record in records):
        return None
    return {row.id: row.accepted for row in load_tables(tables)}


def nights_by_run(
    records: Iterable[Record],
    history: History | None,
    runs: Mapping[str, Run],
    accepted: Mapping[str, Mapping[str, Accepted]] | None = None,
    known: Once | None = None,
) -> tuple[Night, ...]:
    """Each run as a night, the newest first.

    Args:
        records: The records of all of them.
        history: The nights before; ``None`` where there are none.
        runs: What the records do not say, by run id.
        accepted: By row and cluster, what clusters have accepted: the nights that count begin with that.
        known: The history, of which something has been read already.

    Raises:
        HistoryError: The history did not answer.
    """
    by_run: dict[str, list[Record]] = {run_id: [] for run_id in runs}
    for record in newest_of(records).values():
        by_run.setdefault(record.run.id, []).append(record)
    known = known or (None if history is None else Once(history))
    pasts = _pasts((record for of_run in by_run.values() for record in of_run), known, accepted)
    told = {run_id: _begun(runs.get(run_id) or Run(RUNS / run_id)) for run_id in by_run}
    earlier = {} if known is None else told_of(known, by_run, told.values())
    nights = [
        _night(run_id, of_run, known, pasts, told[run_id], accepted or {}, earlier) for run_id, of_run in by_run.items()
    ]
    return tuple(sorted(nights, key=lambda night: (night.begin_s or 0.0, night.run_id), reverse=True))


def exported_night(
    records: Iterable[Record],
    run: Run | None = None,
    history: History | None = None,
    accepted: Mapping[str, Mapping[str, Accepted]] | None = None,
    known: Once | None = None,
) -> Night:
    """A run as exports show it: without secrets, with its alarms, and of the nights before, those of slow rows alone.

    Args:
        records: Its records.
        run: What these do not say.
        history: The nights before; ``None`` where there are none.
        accepted: By row and cluster, what clusters have accepted.
        known: The history, of which something has been read already.

    Raises:
        HistoryError: The history did not answer.
    """
    # A session quotes what it records; a record of an earlier release may hold anything.
    shown: list[Record] = [quoted(record, os.environ) for record in records]
    known = known or (None if history is None else Once(history))
    pasts = _pasts(shown, known, accepted)
    of_slow = set(map(series_key, filter(is_slow, shown)))
    of_runs: dict[str, list[Record]] = {}
    for record in shown:
        of_runs.setdefault(record.run.id, []).append(record)
    told = Run(Path()) if run is None else _begun(run)
    earlier = {} if known is None else told_of(known, of_runs, () if run is None else (told,))
    rows, broken = _rows(shown, {key: past for key, past in pasts.items() if key in of_slow}, {}, earlier)
    return Night(
        "",
        replace(told, missing={**quoted_missing(told.missing), **broken}),
        tuple(rows),
        _slow_nodes(pasts),
        _blamed_nodes(pasts),
        alarms=_alarms(shown, known, accepted or {}) if told.alarms is None else told.alarms,
        told=_told(shown, pasts),
    )


def _begun(run: Run) -> Run:
    """A run with what its session wrote down before it began."""
    known = begun(run.directory)
    noted = quoted(read_noted(run.directory), os.environ)
    return replace(run, noted=noted, begun_s=None if known is None else known.begun_s or None)


def quoted_missing(missing: Mapping[str, str]) -> dict[str, str]:
    """Why rows have no record, without secrets."""
    return {quoted(name, os.environ): quoted(why, os.environ) for name, why in missing.items()}


def _pasts(
    records: Iterable[Record], known: Once | None, accepted: Mapping[str, Mapping[str, Accepted]] | None
) -> Mapping[SeriesKey, Past]:
    return {} if known is None else pasts_of_records(known.history, records, accepted, known.lines)


def _night(
    run_id: str,
    records: Sequence[Record],
    known: Once | None,
    pasts: Mapping[SeriesKey, Past],
    run: Run,
    accepted: Mapping[str, Mapping[str, Accepted]],
    earlier: Mapping[tuple[str, str], tuple[Told, ...]],
) -> Night:
    rows, broken = _rows(records, pasts, accepted, earlier)
    rows = rows if known is None else with_held(rows, known.history)
    whole = replace(run, missing={**run.missing, **broken})
    ordered = tuple(sorted(rows, key=worst_first))
    ran = set(map(series_key, records))
    theirs = {key: past for key, past in pasts.items() if key in ran}
    alarms = _alarms(records, known, accepted) if run.alarms is None else run.alarms
    slow, blamed, sound = _slow_nodes(theirs), _blamed_nodes(theirs), _sound_nodes(theirs)
    night = Night(run_id, whole, ordered, slow, blamed, sound, alarms, _told(records, pasts))
    spells = (alarm.spell for alarm in alarms if alarm.spell.kind is Kind.INCIDENT)
    incidents = {seen.run_id for spell in spells for seen in spell.nights}
    listed = listed_of(night.clusters, earlier)
    return replace(night, listed=tuple(replace(one, had_incident=one.run_id in incidents) for one in listed))


def _slow_nodes(pasts: Mapping[SeriesKey, Past]) -> dict[str, tuple[Suspect, ...]]:
    """By cluster, the nodes that make its jobs slow."""
    slow = {key.cluster: tuple(one for one in past.slow if not one.mended) for key, past in pasts.items()}
    return {cluster: quoted(nodes, os.environ) for cluster, nodes in slow.items() if nodes}


def _blamed_nodes(pasts: Mapping[SeriesKey, Past]) -> dict[str, tuple[Failing, ...]]:
    """By cluster, the nodes of which more jobs fail than by chance."""
    found = {key.cluster: past.nodes.failing for key, past in pasts.items() if past.nodes is not None}
    return {cluster: quoted(nodes, os.environ) for cluster, nodes in found.items() if nodes}


def _sound_nodes(pasts: Mapping[SeriesKey, Past]) -> dict[str, Sound]:
    """By cluster, what is known of those of its nodes that are not slow."""
    nodes = {key.cluster: past.nodes for key, past in pasts.items() if past.nodes is not None}
    return {cluster: quoted(one.sound, os.environ) for cluster, one in nodes.items()}


def _alarms(
    records: Sequence[Record], known: Once | None, accepted: Mapping[str, Mapping[str, Accepted]]
) -> tuple[Alarm, ...]:
    if known is None:
        return ()
    found = alarms_of_records(known.history, records, accepted, time.time(), read=known.lines)
    return quoted(found, os.environ)


def _told(records: Sequence[Record], pasts: Mapping[SeriesKey, Past]) -> dict[str, ClusterTold]:
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


def _rows(
    records: Sequence[Record],
    pasts: Mapping[SeriesKey, Past],
    accepted: Mapping[str, Mapping[str, Accepted]],
    earlier: Mapping[tuple[str, str], tuple[Told, ...]] | None = None,
) -> tuple[list[Row], dict[str, str]]:
    """The rows of a night, and by node id why a record cannot be shown."""
    names = page_names(record.row.node_id for record in records)
    rows, broken = [], {}
    for record in records:
        try:
            row = Row(record, names[record.row.node_id], earlier=_before(record, earlier or {}))
            rows.append(_checked(_with_past(row, pasts, _accepted(record, accepted))))
        except ValueError as error:  # numbers that nothing can be made of
            broken[record.row.node_id] = f"its record cannot be shown: {error}"
    return rows, broken


def _checked(row: Row) -> Row:
    """A row whose numbers can be put into words.

    Raises:
        ValueError: They cannot.
    """
    if row.verdict is not None and row.needs is attention.INCONCLUSIVE:
        inconclusive_text(row.record, row.verdict)
    return row


def _accepted(record: Record, accepted: Mapping[str, Mapping[str, Accepted]]) -> Accepted | None:
    """What counts from a cluster's own figure, where the outcome rests on one."""
    known = accepted.get(record.row.id, {}).get(record.run.cluster)
    return known if known is not None and known.definition == record.row.definition else None


def _before(record: Record, told: Mapping[tuple[str, str], tuple[Told, ...]]) -> tuple[Told, ...]:
    """What the runs before came to for a row; one that judged the same job again was none."""
    time_s = record_time_s(record)
    of_row = told.get((record.run.cluster, record.row.id), ())
    return tuple(one for one in of_row if one.run_id != record.run.id and one.time_s < time_s)


def _with_past(row: Row, pasts: Mapping[SeriesKey, Past], accepted: Accepted | None) -> Row:
    record = row.record
    key = series_key(record)
    if key is None:
        return replace(row, since=since_of(row))
    tonight = [point.point for point in points_of(record)]
    now_s = max([record_time_s(record), *(point.time_s for point in tonight)])
    earlier = replace(pasts.get(key) or Past(), accepted=accepted).without(record.run.id).without_jobs(tonight)
    earlier = earlier.until(now_s)
    past = earlier.with_tonight(tonight)
    drifts = past.drifting if tonight else None
    nights, judged, measured = past.nights, past.judged, past.measured
    row = replace(row, nights=nights, judged=judged, measured=measured, counted=past.counted, drifting=drifts)
    return replace(row, since=since_of(row))
