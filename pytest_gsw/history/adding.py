"""How records are written down, and the series that their points belong to."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_gsw.common.redact import printable
from pytest_gsw.history.database import Database
from pytest_gsw.history.model import (
    JobPoint,
    SeriesKey,
    cluster_of,
    job_name,
    job_time_s,
    points_of,
    record_time_s,
    series_key,
)
from pytest_gsw.jobs.model import JobState
from pytest_gsw.logs.failures import SIGNATURES
from pytest_gsw.results.outcomes import ERROR
from pytest_gsw.results.record import JobFacts, Record, of_content, version_problem
from pytest_gsw.results.summary import cause_of
from pytest_gsw.runs.infrastructure import BLAMELESS
from pytest_gsw.runs.run import CAUSE_OF_STATE

_to_json = json.JSONEncoder(sort_keys=True).encode

# The condition is that of model.rank().
_UPSERT_RECORD = f"""
INSERT INTO gsw_record (run_id, node_id, row_id, cluster, definition, outcome, time_s, recorded_s, added_s)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, node_id) DO UPDATE SET row_id = excluded.row_id, cluster = excluded.cluster,
    definition = excluded.definition, outcome = excluded.outcome, time_s = excluded.time_s,
    recorded_s = excluded.recorded_s
WHERE (CASE excluded.outcome WHEN '{ERROR.word}' THEN 0 ELSE 1 END, excluded.recorded_s)
    >= (CASE gsw_record.outcome WHEN '{ERROR.word}' THEN 0 ELSE 1 END, gsw_record.recorded_s)"""  # noqa: S608 - a word of ours

# What is there of a record, and after the statement above: what nobody else changes before this transaction ends.
_STORED = """
SELECT r.id, r.outcome, r.recorded_s, b.body FROM gsw_record r LEFT JOIN gsw_body b ON b.record_id = r.id
WHERE r.run_id = ? AND r.node_id = ?"""

_INSERT_POINT = """
INSERT INTO gsw_point (record_id, series_id, job, run_id, job_id, time_s, judged_s, outcome, nodes, image, environment,
    reason, metrics, variables)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (record_id, job) DO NOTHING"""


def add_records(database: Database, records: Mapping[tuple[str, str], Record]) -> int:
    """Write down records, by run and node id, in a transaction of the caller's; how many have changed anything."""
    series_ids = _series_ids(database, {key for record in records.values() if (key := series_key(record)) is not None})
    _say_experiments(database, series_ids, records.values())
    added_s = time.time()  # one for all: of what comes together, nothing came first
    database.execute_many(_UPSERT_RECORD, [(*_record_values(record), added_s) for record in records.values()])
    stored = database.execute_each(_STORED, [plain(record.run.id, record.row.node_id) for record in records.values()])
    taken: dict[int, Record] = {}
    changed = 0
    for record, ((record_id, outcome, recorded_s, body),) in zip(records.values(), stored, strict=True):
        if (outcome, recorded_s) == (*plain(record.outcome), record.run.recorded_s or 0.0):
            taken[record_id] = record
            changed += not _is_body_of(body, record)
    database.execute_many("DELETE FROM gsw_point WHERE record_id = ?", [(record_id,) for record_id in taken])
    database.execute_many(
        "INSERT INTO gsw_body (record_id, body) VALUES (?, ?)"
        " ON CONFLICT (record_id) DO UPDATE SET body = excluded.body",
        [(record_id, encode(record)) for record_id, record in taken.items()],
    )
    database.execute_many(
        _INSERT_POINT,
        [
            (record_id, series_ids[key], *_point_values(one))
            for record_id, record in taken.items()
            if (key := series_key(record)) is not None
            for one in points_of(record)
        ],
    )
    keep_failures(database, taken)
    return changed


def _known_ids(database: Database, keys: Sequence[SeriesKey]) -> dict[SeriesKey, int]:
    """The ids of those of the series that are there."""
    found = database.execute_each(
        "SELECT id FROM gsw_series WHERE row_id = ? AND cluster = ? AND definition = ?",
        [key_values(key) for key in keys],
    )
    return {key: rows[0][0] for key, rows in zip(keys, found, strict=True) if rows}


def plain(*texts: str) -> tuple[str, ...]:
    """Texts that every database takes: PostgreSQL stores no zero byte, and neither stores half a character."""
    whole = "".join(texts)
    return texts if printable(whole) == whole else tuple(map(printable, texts))


def _series_ids(database: Database, keys: Iterable[SeriesKey]) -> Mapping[SeriesKey, int]:
    """The ids of series, which are made where there are none."""
    wanted = sorted(keys)
    ids = _known_ids(database, wanted)
    database.execute_many(
        "INSERT INTO gsw_series (row_id, cluster, definition) VALUES (?, ?, ?)"
        " ON CONFLICT (row_id, cluster, definition) DO NOTHING",
        [key_values(key) for key in wanted if key not in ids],
    )
    return {**ids, **_known_ids(database, [key for key in wanted if key not in ids])}


def _say_experiments(database: Database, series_ids: Mapping[SeriesKey, int], records: Iterable[Record]) -> None:
    """Give each series the experiment that its records say, where none has said it before."""
    said = {
        series_ids[key]: record.row.experiment
        for record in records
        if record.row.experiment and (key := series_key(record)) is not None
    }
    database.execute_many(
        "UPDATE gsw_series SET experiment = ? WHERE id = ? AND experiment = ''",
        [(*plain(experiment), series_id) for series_id, experiment in sorted(said.items())],
    )


def _record_values(record: Record) -> tuple[Any, ...]:
    run, row = record.run, record.row
    texts = (run.id, row.node_id, row.id, run.cluster, row.definition, record.outcome)
    return (*plain(*texts), float(record_time_s(record)), float(run.recorded_s or 0.0))


def _is_body_of(body: bytes | None, record: Record) -> bool:
    """Whether a record is kept as it is."""
    return body is not None and body_text(body) == record.text


def _point_values(one: JobPoint) -> tuple[Any, ...]:
    point = one.point
    return (
        *plain(one.job, point.run_id, point.job_id),
        # Of JSON a whole number may be larger than any that a database has.
        float(point.time_s),
        float(point.judged_s),
        *plain(point.outcome, point.nodes),
        None if point.image is None else printable(point.image),
        _to_json(dict(point.environment)),
        *plain(point.reason),
        _to_json(dict(point.metrics)),
        _to_json(None if point.variables is None else dict(point.variables)),
    )


def key_values(key: SeriesKey) -> tuple[str, ...]:
    """What a series is found by."""
    return plain(key.row, key.cluster, key.definition)


_INSERT = """
INSERT INTO gsw_failure (record_id, job, cluster, job_id, time_s, nodes, why) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (record_id, job) DO NOTHING"""
_OF_CLUSTER = """
SELECT f.job, r.row_id, r.run_id, f.job_id, f.time_s, f.nodes, f.why
FROM gsw_failure f JOIN gsw_record r ON r.id = f.record_id
WHERE f.cluster = ? AND f.time_s >= ? ORDER BY f.time_s, r.run_id, f.job"""


@dataclass(frozen=True)
class Failure:
    """One job that the infrastructure failed."""

    row: str
    run_id: str
    job_id: str
    time_s: float
    nodes: str
    #: What failed it: ``node failure``, ``ECC error``.
    why: str


def keep_failures(database: Database, records: Mapping[int, Record]) -> None:
    """Write down the failed jobs of records, by the numbers of these; what was there of them before is taken away."""
    database.execute_many("DELETE FROM gsw_failure WHERE record_id = ?", [(record_id,) for record_id in records])
    values = [(record_id, *one) for record_id, record in records.items() for one in _values(record)]
    database.execute_many(_INSERT, values)


def failures_of_cluster(database: Database, cluster: str, since_s: float) -> tuple[Failure, ...]:
    """The failed jobs of a cluster, the oldest first; one that a replay recorded again is its first run's."""
    found: dict[str, Failure] = {}
    for job, *values in database.execute(_OF_CLUSTER, (printable(cluster), since_s)):
        found.setdefault(job, Failure(*values))
    return tuple(found.values())


def _values(record: Record) -> Iterator[tuple[object, ...]]:
    for job, why in failed_jobs(record):
        texts = map(printable, (job_name(job), cluster_of(record), job.id))
        yield (*texts, job_time_s(job, record), printable(job.nodes), printable(why))


def encode(record: Record) -> bytes:
    """A record as compressed JSON."""
    return zlib.compress(record.text.encode("ascii"))


def body_text(body: bytes) -> str | None:
    """The JSON of an encoded record, ``None`` if it is none."""
    try:
        return zlib.decompress(body).decode("ascii")
    except (zlib.error, ValueError):
        return None


def decode(body: bytes) -> Record:
    """The record again; a ValueError where it is none."""
    try:
        content = json.loads(zlib.decompress(body))
    except zlib.error as error:
        raise ValueError(f"it is no record: {error}") from None
    if problem := version_problem(content["schema"]):
        raise ValueError(f"it is {problem}")
    return of_content(content)


_CAUSES = {one.name for one in SIGNATURES if one.infrastructure} | {
    CAUSE_OF_STATE[state] for state in (JobState.NODE_FAIL, JobState.BOOT_FAIL)
}


def failed_jobs(record: Record) -> tuple[tuple[JobFacts, str], ...]:
    """The jobs of a record that its nodes may have failed, each with the cause.

    Those are its attempts, whatever came of the row in the end, and the last job of a row that could not be measured
    for such a cause. What somebody cancelled or a scheduler took away says nothing of nodes; a script that is wrong
    says something of its row.
    """
    found = [(job, job.why_repeated) for job in record.jobs.failed if job.why_repeated not in BLAMELESS]
    last = record.jobs.last
    if last is not None and record.outcome == ERROR.word:
        why = CAUSE_OF_STATE.get(JobState(last.state)) or cause_of(record).rpartition(": ")[2]
        if why in _CAUSES - BLAMELESS:
            found.append((last, why))
    return tuple((job, why) for job, why in found if job.id and job.nodes)
