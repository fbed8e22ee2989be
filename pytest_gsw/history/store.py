"""A history: stores records, and returns series of points and whole records."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.redact import printable
from pytest_gsw.common.text import by_number
from pytest_gsw.history import model
from pytest_gsw.history.database import Database, HistoryError, HistoryUnusableError, Rows, Values
from pytest_gsw.history.model import ExperimentKey, Point, RowOutcome, SeriesKey, cluster_of, job_name, job_time_s
from pytest_gsw.jobs.states import JobState
from pytest_gsw.logs.signatures import SIGNATURES
from pytest_gsw.results import outcomes, summary
from pytest_gsw.results.record import JobFacts, Record, figure_of_cost, of_content
from pytest_gsw.stats.verdict import Reason
from pytest_gsw.tables.metrics import STEP_TIME, Direction, metric_of
from pytest_gsw.tables.model import row_matches
from pytest_gsw.validation.retryable import BLAMELESS
from pytest_gsw.validation.run import CAUSE_OF_STATE

# -- Decisions of people and the program on runs: events that are appended, and never changed ----------
# A decision is revoked by another event: the history keeps the decisions in effect at any time.


#: A run that is excluded from its rows' histories; the subject is its id.
EXCLUDE = "exclude"
#: The acknowledgement of an alarm; the subject is its identity.
ACKNOWLEDGE = "acknowledge"
#: The nodes of each switch or block; the subject is the cluster.
TOPOLOGY = "topology"
#: The revocation of another event.
REVOKE = "revoke"

# -- Storage of records, and the series of their points --------------------------------------------


_to_json = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True)
class Event:
    """One decision."""

    kind: str
    subject: str
    cluster: str
    #: Its time, seconds since the epoch.
    time_s: float
    #: Details such as its reason, person and end.
    body: Mapping[str, Any] = field(default_factory=dict)
    #: The number of the event that this one revokes.
    revokes: int | None = None
    #: Its number, 0 before it is stored.
    id: int = 0


def active(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events in effect: neither revoked nor revocations."""
    all_of_them = tuple(events)
    revoked = {event.revokes for event in all_of_them}
    return tuple(event for event in all_of_them if event.revokes is None and event.id not in revoked)


def read_events(database: Database) -> tuple[Event, ...]:
    """All events, in the order of their storage.

    Raises:
        HistoryError: One cannot be read.
    """
    rows = database.execute("SELECT kind, subject, cluster, time_s, body, revokes, id FROM gsw_event ORDER BY id")
    try:
        return tuple(
            Event(kind, subject, cluster, time_s, json.loads(body), revokes, number)
            for kind, subject, cluster, time_s, body, revokes, number in rows
        )
    except ValueError as error:
        raise HistoryError(f"an event in {database.shown} cannot be read: {error}") from None


# The condition is that of model.rank().
_UPSERT_RECORD = f"""
INSERT INTO gsw_record (run_id, node_id, row_id, cluster, definition, outcome, time_s, recorded_s, added_s)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, node_id) DO UPDATE SET row_id = excluded.row_id, cluster = excluded.cluster,
    definition = excluded.definition, outcome = excluded.outcome, time_s = excluded.time_s,
    recorded_s = excluded.recorded_s
WHERE (CASE excluded.outcome WHEN '{outcomes.ERROR.word}' THEN 0 ELSE 1 END, excluded.recorded_s)
    >= (CASE gsw_record.outcome WHEN '{outcomes.ERROR.word}' THEN 0 ELSE 1 END, gsw_record.recorded_s)"""  # noqa: S608 - a word of ours

# The stored state of a record after the statement above, locked against other sessions until this transaction ends.
_STORED = """
SELECT r.id, r.outcome, r.recorded_s, b.body FROM gsw_record r LEFT JOIN gsw_body b ON b.record_id = r.id
WHERE r.run_id = ? AND r.node_id = ?"""

_INSERT_POINT = """
INSERT INTO gsw_point (record_id, series_id, job, run_id, job_id, time_s, judged, outcome, nodes, image, environment,
    reason, metrics, variables)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (record_id, job) DO NOTHING"""


def add_records(database: Database, records: Mapping[tuple[str, str], Record]) -> int:
    """Store records, by run and node id, in a transaction of the caller's; return how many changed anything."""
    keys = {key: record for record in records.values() if (key := model.series_key(record)) is not None}
    series_ids = _series_ids(database, keys)
    _set_experiments(database, series_ids, records.values())
    added_s = time.time()  # one for all: records that arrive together have no order
    database.execute_each(_UPSERT_RECORD, [(*_record_values(record), added_s) for record in records.values()])
    stored = database.execute_each(_STORED, [plain(*key) for key in records])
    taken: dict[int, Record] = {}
    changed = 0
    for record, ((record_id, outcome, recorded_s, body),) in zip(records.values(), stored, strict=True):
        if (outcome, recorded_s) == (*plain(record.outcome), record.run.recorded_s or 0.0):
            taken[record_id] = record
            changed += body is None or body_text(body) != record.text
    database.execute_each("DELETE FROM gsw_point WHERE record_id = ?", [(record_id,) for record_id in taken])
    database.execute_each(
        "INSERT INTO gsw_body (record_id, body) VALUES (?, ?)"
        " ON CONFLICT (record_id) DO UPDATE SET body = excluded.body",
        [(record_id, encode(record)) for record_id, record in taken.items()],
    )
    database.execute_each(
        _INSERT_POINT,
        [
            (record_id, series_ids[key], *_point_values(point))
            for record_id, record in taken.items()
            if (key := model.series_key(record)) is not None
            for point in model.points_of(record)
        ],
    )
    database.execute_each("DELETE FROM gsw_failure WHERE record_id = ?", [(record_id,) for record_id in taken])
    failed = [(key, record, *failure) for key, record in taken.items() for failure in failed_jobs(record)]
    database.execute_each(
        _INSERT_FAILURE,
        [
            (key, *plain(job_name(job), cluster_of(record), job.id), job_time_s(job, record), *plain(job.nodes, why))
            for key, record, job, why in failed
        ],
    )
    return changed


def _known_ids(database: Database, keys: Sequence[SeriesKey]) -> dict[SeriesKey, int]:
    """The ids of the existing ones of these series."""
    results = database.execute_each(
        "SELECT id FROM gsw_series WHERE row_id = ? AND cluster = ? AND definition = ?",
        [key_values(key) for key in keys],
    )
    return {key: rows[0][0] for key, rows in zip(keys, results, strict=True) if rows}


def plain(*texts: str) -> tuple[str, ...]:
    """Texts that every database accepts: PostgreSQL stores no zero byte, and neither stores a lone surrogate."""
    whole = "".join(texts)
    return texts if printable(whole) == whole else tuple(map(printable, texts))


def _metric_values(record: Record) -> tuple[str, ...]:
    """The database values of a record's metric: the row's ``metric``, its unit and its better direction."""
    return plain(record.row.metric, record.judged_metric.unit, record.judged_metric.better)


def _series_ids(database: Database, keys: Mapping[SeriesKey, Record]) -> Mapping[SeriesKey, int]:
    """The ids of series, each with one of its records; missing ones are created."""
    wanted = sorted(keys)
    ids = _known_ids(database, wanted)
    database.execute_each(
        "INSERT INTO gsw_series (row_id, cluster, definition, metric, unit, better) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (row_id, cluster, definition) DO NOTHING",
        [(*key_values(key), *_metric_values(keys[key])) for key in wanted if key not in ids],
    )
    return {**ids, **_known_ids(database, [key for key in wanted if key not in ids])}


def _set_experiments(database: Database, series_ids: Mapping[SeriesKey, int], records: Iterable[Record]) -> None:
    """Set the experiment of each series without one, from its records."""
    experiments = {
        series_ids[key]: record.row.experiment
        for record in records
        if record.row.experiment and (key := model.series_key(record)) is not None
    }
    database.execute_each(
        "UPDATE gsw_series SET experiment = ? WHERE id = ? AND experiment = ''",
        [(*plain(experiment), series_id) for series_id, experiment in sorted(experiments.items())],
    )


def _record_values(record: Record) -> tuple[Any, ...]:
    run, row = record.run, record.row
    texts = (run.id, row.node_id, row.id, run.cluster, row.definition, record.outcome)
    return (*plain(*texts), float(model.record_time_s(record)), float(run.recorded_s or 0.0))


def _point_values(point: Point) -> tuple[Any, ...]:
    return (
        *plain(point.job, point.run_id, point.job_id),
        # An integer in JSON may exceed the range of a database.
        float(point.time_s),
        float(point.judged),
        *plain(point.outcome, point.nodes),
        None if point.image is None else printable(point.image),
        _to_json(dict(point.environment)),
        *plain(point.reason),
        _to_json(dict(point.metrics)),
        _to_json(None if point.variables is None else dict(point.variables)),
    )


def key_values(key: SeriesKey) -> tuple[str, ...]:
    """The database values of a series' key."""
    return plain(key.row, key.cluster, key.definition)


_INSERT_FAILURE = """
INSERT INTO gsw_failure (record_id, job, cluster, job_id, time_s, nodes, why) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (record_id, job) DO NOTHING"""
_OF_CLUSTER = """
SELECT f.job, r.row_id, r.run_id, f.job_id, f.time_s, f.nodes, f.why
FROM gsw_failure f JOIN gsw_record r ON r.id = f.record_id
WHERE f.cluster = ? AND f.time_s >= ? ORDER BY f.time_s, r.run_id, f.job"""


@dataclass(frozen=True)
class Failure:
    """One job that failed because of the infrastructure."""

    row: str
    run_id: str
    job_id: str
    time_s: float
    nodes: str
    #: The cause: ``node failure``, ``ECC error``.
    why: str


def encode(record: Record) -> bytes:
    """A record as compressed JSON."""
    return zlib.compress(record.text.encode("ascii"))


def body_text(body: bytes) -> str | None:
    """The JSON of an encoded record; ``None`` if invalid."""
    try:
        return zlib.decompress(body).decode("ascii")
    except (zlib.error, ValueError):
        return None


def decode(body: bytes) -> Record:
    """The record of an encoded one; a ValueError if invalid."""
    try:
        content = json.loads(zlib.decompress(body))
    except zlib.error as error:
        raise ValueError(f"it is no record: {error}") from None
    return of_content(content)


_CAUSES = {signature.name for signature in SIGNATURES if signature.infrastructure} | {
    CAUSE_OF_STATE[state] for state in (JobState.NODE_FAIL, JobState.BOOT_FAIL)
}


def failed_jobs(record: Record) -> tuple[tuple[JobFacts, str], ...]:
    """The jobs of a record that its nodes may have failed, each with the cause.

    These are its failed attempts, whatever the row's outcome, and the last job of a row that could not be measured
    for such a cause. A cancellation or preemption is no evidence against nodes; an error in a script concerns its row.
    """
    failed = [(job, job.why_repeated) for job in record.jobs.failed if job.why_repeated not in BLAMELESS]
    last = record.jobs.last
    if last is not None and record.outcome == outcomes.ERROR.word:
        why = CAUSE_OF_STATE.get(last.state) or summary.cause_of(record).rpartition(": ")[2]
        if why in _CAUSES - BLAMELESS:
            failed.append((last, why))
    return tuple((job, why) for job, why in failed if job.id and job.nodes)


# -- the schema, version 2 -------------------------------------------------------------------------


VERSION = 2

# Texts and numbers that queries need are columns; whole records are in a table of their own, to keep scanned
# tables small.
_TABLES = (
    # One run of one row.
    """CREATE TABLE gsw_record (
        id {key},
        run_id TEXT NOT NULL,
        node_id TEXT NOT NULL,
        row_id TEXT NOT NULL,
        cluster TEXT NOT NULL,
        definition TEXT NOT NULL,
        outcome TEXT NOT NULL,
        time_s DOUBLE PRECISION NOT NULL,
        recorded_s DOUBLE PRECISION NOT NULL,
        added_s DOUBLE PRECISION NOT NULL DEFAULT 0,
        UNIQUE (run_id, node_id)
    )""",
    "CREATE INDEX gsw_record_by_run ON gsw_record (run_id, cluster, outcome, time_s)",
    "CREATE TABLE gsw_body (record_id BIGINT PRIMARY KEY REFERENCES gsw_record (id), body {bytes} NOT NULL)",
    """CREATE TABLE gsw_series (
        id {key},
        row_id TEXT NOT NULL,
        cluster TEXT NOT NULL,
        definition TEXT NOT NULL,
        experiment TEXT NOT NULL DEFAULT '',
        metric TEXT NOT NULL DEFAULT 'step_time',
        unit TEXT NOT NULL DEFAULT 's',
        better TEXT NOT NULL DEFAULT 'lower',
        UNIQUE (row_id, cluster, definition)
    )""",
    "CREATE INDEX gsw_series_by_cluster ON gsw_series (cluster, row_id)",
    # One measured job with its figure in the unit of its series, once for each record that contains it; the first run's
    # counts. Unknown variables are JSON's null.
    """CREATE TABLE gsw_point (
        record_id BIGINT NOT NULL REFERENCES gsw_record (id),
        series_id BIGINT NOT NULL REFERENCES gsw_series (id),
        job TEXT NOT NULL,
        run_id TEXT NOT NULL,
        job_id TEXT NOT NULL,
        time_s DOUBLE PRECISION NOT NULL,
        judged DOUBLE PRECISION NOT NULL,
        outcome TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '',
        nodes TEXT NOT NULL,
        image TEXT,
        environment TEXT NOT NULL,
        variables TEXT NOT NULL DEFAULT 'null',
        metrics TEXT NOT NULL DEFAULT '{{}}',
        PRIMARY KEY (record_id, job)
    )""",
    "CREATE INDEX gsw_point_by_time ON gsw_point (series_id, time_s)",
    "CREATE INDEX gsw_point_by_job ON gsw_point (series_id, job, run_id, record_id)",
    # A job that the infrastructure failed, which has no point.
    """CREATE TABLE gsw_failure (
        record_id BIGINT NOT NULL REFERENCES gsw_record (id),
        job TEXT NOT NULL,
        cluster TEXT NOT NULL,
        job_id TEXT NOT NULL,
        time_s DOUBLE PRECISION NOT NULL,
        nodes TEXT NOT NULL,
        why TEXT NOT NULL,
        PRIMARY KEY (record_id, job)
    )""",
    "CREATE INDEX gsw_failure_by_time ON gsw_failure (cluster, time_s)",
    # Decisions are appended, and never changed.
    """CREATE TABLE gsw_event (
        id {key},
        time_s DOUBLE PRECISION NOT NULL,
        cluster TEXT NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        body TEXT NOT NULL,
        revokes BIGINT REFERENCES gsw_event (id)
    )""",
    "CREATE TABLE gsw_schema (version BIGINT NOT NULL)",
)


_REFILL = "name another one, and fill it with pytest-gsw history --add .gsw/runs/*"


def make_schema(database: Database) -> None:
    """Create the schema in an empty database, or convert that of the first release.

    Raises:
        HistoryUnusableError: It has another version, or that of the first release and cannot be converted.
        HistoryError: It cannot be read or changed.
    """
    if _version(database) == VERSION:
        return  # the usual case, without a lock
    try:
        with database.transaction(write=True):
            database.wait_for_schema()
            version = _version(database)  # another session may have been faster
            if version is None:
                for sql in _TABLES:
                    database.execute(sql.format(key=database.key_sql, bytes=database.bytes_sql))
                database.execute("INSERT INTO gsw_schema (version) VALUES (?)", (VERSION,))
            elif version < VERSION:
                _convert_first_schema(database)
    except HistoryError as error:
        if not database.has_table("gsw_schema"):
            raise
        raise HistoryUnusableError(
            f"the history {database.shown} is of version 1, and cannot be converted: {error}\n"
            f"next: let this user write it, or {_REFILL}"
        ) from None


def _convert_first_schema(database: Database) -> None:
    """Give series their metrics, and points figures in their units, in a transaction of the caller's.

    Raises:
        HistoryError: It cannot be changed, or the record that has the metric of a series cannot be read.
    """
    database.execute("ALTER TABLE gsw_point RENAME COLUMN judged_s TO judged")
    for name, usual in (("metric", STEP_TIME.name), ("unit", STEP_TIME.unit), ("better", "lower")):
        database.execute(f"ALTER TABLE gsw_series ADD COLUMN {name} TEXT NOT NULL DEFAULT '{usual}'")
    # Not by points: a series may have none yet.
    newest = "SELECT definition, MAX(id) AS id FROM gsw_record JOIN gsw_body ON record_id = id GROUP BY definition"
    bodies = f"({newest}) r ON r.definition = s.definition JOIN gsw_body b ON b.record_id = r.id"
    for series_id, body in database.execute(f"SELECT s.id, b.body FROM gsw_series s JOIN {bodies}"):  # noqa: S608
        try:
            record = decode(body)
        except ValueError as error:
            raise HistoryError(f"a record in it cannot be read: {error}") from None
        values, direction = (*_metric_values(record), series_id), record.judged_metric.direction
        database.execute("UPDATE gsw_series SET metric = ?, unit = ?, better = ? WHERE id = ?", values)
        if direction is Direction.HIGHER_IS_BETTER:
            of_series = "SELECT judged, record_id, job FROM gsw_point WHERE series_id = ?"
            points = [
                (figure_of_cost(cost, direction), *job) for cost, *job in database.execute(of_series, (series_id,))
            ]
            database.execute_each("UPDATE gsw_point SET judged = ? WHERE record_id = ? AND job = ?", points)
    database.execute("UPDATE gsw_schema SET version = ?", (VERSION,))


def _version(database: Database) -> int | None:
    """The version of the schema; ``None`` in an empty database."""
    if not database.has_table("gsw_schema"):
        return None
    versions: list[int] = [version for (version,) in database.execute("SELECT version FROM gsw_schema")]
    if versions not in ([1], [VERSION]):
        of = f"is of version {versions[0]}" if len(versions) == 1 else "has no readable schema version"
        raise HistoryUnusableError(
            f"the history {database.shown} {of}, and this pytest-gsw reads version {VERSION}\nnext: {_REFILL}"
        )
    return versions[0]


# -- the history -----------------------------------------------------------------------------------


# A job counts once however often it was recorded. A replay records it again, in a later run. The time of an import is
# the log's last change. The session's own record of the same job, whenever that arrives, is matched by the job's id
# within two days, in which no id returns.
_ONCE = """NOT EXISTS (
    SELECT 1 FROM gsw_point q
    WHERE q.series_id = p.series_id AND q.job = p.job AND (q.run_id, q.record_id) < (p.run_id, p.record_id)
) AND NOT (substr(p.run_id, 1, 7) = 'import-' AND EXISTS (
    SELECT 1 FROM gsw_point q
    WHERE q.series_id = p.series_id AND q.time_s BETWEEN p.time_s - 172800 AND p.time_s + 172800
        AND q.job_id = p.job_id AND substr(q.run_id, 1, 7) <> 'import-'
))"""
_COLUMNS = """
p.run_id, p.job_id, p.time_s, p.judged, p.outcome, p.nodes, p.image, p.environment, p.variables, p.reason,
    p.metrics, s.definition, r.added_s, s.metric, s.unit, s.better"""
_CLUSTER_POINTS = f"""
SELECT s.row_id, CASE s.experiment WHEN '' THEN s.definition ELSE s.experiment END, {_COLUMNS}
FROM gsw_series s JOIN gsw_point p ON p.series_id = s.id JOIN gsw_record r ON r.id = p.record_id
WHERE s.cluster = ? AND p.time_s >= ? AND {_ONCE}
ORDER BY p.time_s, p.run_id, p.job"""  # noqa: S608 - names of ours

# An import has one log, and is no real run.
_OUTCOMES = """
SELECT r.row_id, r.run_id, r.time_s, r.outcome FROM gsw_record r JOIN (
    SELECT run_id FROM gsw_record WHERE cluster = ? AND substr(run_id, 1, 7) <> 'import-'
    GROUP BY run_id ORDER BY MAX(time_s) DESC LIMIT ?
) n ON n.run_id = r.run_id WHERE r.cluster = ? ORDER BY r.time_s, r.run_id"""


class History:
    """The stored results of all runs.

    It connects at its first use. A connection that was lost is made again; a request meanwhile
    raises :class:`~pytest_gsw.history.database.HistoryUnavailableError`, and may be repeated.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_schema = False

    @property
    def shown(self) -> str:
        """Its place for messages, without a password."""
        return self._database.shown

    @property
    def place(self) -> str:
        """Its place, the same from every directory and without a password."""
        return self._database.place

    def add(self, records: Iterable[Record]) -> int:
        """Store records: all of them, or none if that fails.

        A record that is stored already changes nothing. Of two records of one row in one run, the later written one is
        kept, in any order of arrival, see :func:`~pytest_gsw.history.model.rank`.

        Returns:
            The number of records that changed anything.

        Raises:
            HistoryError: They cannot be stored.
        """
        # The same order in all sessions: two that wait for each other's rows would wait for ever.
        newest = dict(sorted(model.by_run(records).items()))
        if not newest:
            return 0
        with self._transaction(write=True) as database:
            return add_records(database, newest)

    def cluster_points(self, cluster: str, since_s: float = 0.0) -> Mapping[ExperimentKey, tuple[Point, ...]]:
        """All points of a cluster, the oldest first, by row and experiment."""
        rows = self._query(_CLUSTER_POINTS, (*plain(cluster), since_s))
        runs: dict[tuple[str, str], list[Point]] = {}
        for facts in rows:
            try:
                runs.setdefault(facts[:2], []).append(_point(facts[2:]))
            except ValueError as error:
                raise HistoryError(f"a point of {facts[0]} in {self.shown} cannot be read: {error}") from None
        return {ExperimentKey(row, cluster, experiment): tuple(points) for (row, experiment), points in runs.items()}

    def decide(self, event: Event) -> Event:
        """Store a decision; return the event with its number.

        Raises:
            HistoryError: It cannot be stored, or revokes an event that is missing or revoked already.
        """
        texts = [printable(text) for text in (event.cluster, event.kind, event.subject)]
        with self._transaction(write=True) as database:
            if event.revokes is not None and event.revokes not in {other.id for other in active(read_events(database))}:
                raise HistoryError(f"no event {event.revokes} is active in {database.shown}")
            database.execute(
                "INSERT INTO gsw_event (time_s, cluster, kind, subject, body, revokes) VALUES (?, ?, ?, ?, ?, ?)",
                (event.time_s, *texts, _to_json(dict(event.body)), event.revokes),
            )
            # Not RETURNING, which SQLite has only since 3.35.
            same = "SELECT MAX(id) FROM gsw_event WHERE time_s = ? AND cluster = ? AND kind = ? AND subject = ?"
            ((number,),) = database.execute(same, (event.time_s, *texts))
        return replace(event, id=number)

    def events(self, cluster: str | None = None, kind: str | None = None) -> tuple[Event, ...]:
        """The events in effect, in order; of one cluster or one kind, if given."""
        with self._transaction(write=False) as database:
            in_effect = active(read_events(database))
        return tuple(event for event in in_effect if cluster in {None, event.cluster} and kind in {None, event.kind})

    def failures(self, cluster: str, since_s: float = 0.0) -> tuple[Failure, ...]:
        """The jobs of a cluster that failed because of the infrastructure, the oldest first.

        A job that a replay recorded again belongs to its first run.
        """
        failed: dict[str, Failure] = {}
        for job, *values in self._query(_OF_CLUSTER, (printable(cluster), since_s)):
            failed.setdefault(job, Failure(*values))
        return tuple(failed.values())

    def series(self, rows: Sequence[str] = (), cluster: str | None = None) -> tuple[SeriesKey, ...]:
        """The series that have points: by row, cluster and time, the one with the newest point first.

        Args:
            rows: Ids or node ids of rows, with the wildcards ``*`` and ``?``; all by default.
            cluster: Only this cluster's.
        """
        found = self._query(
            "SELECT row_id, cluster, definition,"
            " (SELECT MAX(time_s) FROM gsw_point p WHERE p.series_id = s.id) FROM gsw_series s"
        )
        newest = {SeriesKey(*key): time_s for *key, time_s in found if time_s is not None}
        chosen = [
            key
            for key in newest
            if cluster in {None, key.cluster} and (not rows or any(row_matches(pattern, key.row) for pattern in rows))
        ]
        return tuple(sorted(chosen, key=lambda key: (by_number(key.row), key.cluster, -newest[key], key.definition)))

    def runs(self) -> Mapping[str, str]:
        """The cluster of each run, in the order of the runs' names, which begin with their time."""
        return dict(sorted(self._query("SELECT DISTINCT run_id, cluster FROM gsw_record")))

    def outcomes(self, cluster: str, last: int) -> Mapping[str, tuple[RowOutcome, ...]]:
        """Outcomes of the last runs of a cluster by row, measured or not, the oldest first."""
        rows = self._query(_OUTCOMES, (*plain(cluster), last, *plain(cluster)))
        outcomes_of = grouped([(row, RowOutcome(*facts)) for row, *facts in rows])
        return {row: tuple(of_row) for row, of_row in outcomes_of.items()}

    def records(self, run_id: str, rows: Collection[str] | None = None) -> tuple[Record, ...]:
        """The records of one run, or of its rows with these ids, in the order of their node ids.

        Raises:
            HistoryError: One of them cannot be read.
        """
        return self._records("run_id = ?", plain(run_id), f"run {run_id}", rows)

    def _records(
        self, where: str, values: Values, what: str, rows: Collection[str] | None = None
    ) -> tuple[Record, ...]:
        tables = "gsw_record r JOIN gsw_body b ON b.record_id = r.id"
        found = self._query(f"SELECT node_id, row_id, body FROM {tables} WHERE {where}", values)  # noqa: S608 - ours
        try:
            return tuple(decode(body) for _, row, body in sorted(found) if rows is None or row in rows)
        except ValueError as error:
            raise HistoryError(f"a record of {what} in {self.shown} cannot be read: {error}") from None

    def named_nodes(self, cluster: str, since_s: float = 0.0) -> tuple[Record, ...]:
        """The records of a cluster's tiles on which a search has named nodes.

        Raises:
            HistoryError: One of them cannot be read.
        """
        of_points = "id IN (SELECT record_id FROM gsw_point WHERE reason = ?)"
        values = (*plain(cluster), since_s, Reason.SLOW_NODE.value)
        return self._records(f"cluster = ? AND time_s >= ? AND {of_points}", values, cluster)

    def has_job(self, row: str, cluster: str, job_id: str) -> bool:
        """True if a job with this id is a point of a row, on any day and under any definition."""
        rows = self._query(
            "SELECT 1 FROM gsw_point p JOIN gsw_series s ON s.id = p.series_id"
            " WHERE s.row_id = ? AND s.cluster = ? AND p.job_id = ? LIMIT 1",
            plain(row, cluster, job_id),
        )
        return bool(rows)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def __enter__(self) -> History:  # noqa: PYI034 - typing.Self is Python 3.11's
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Database]:
        if not self._has_schema:
            make_schema(self._database)
            self._has_schema = True
        with self._database.transaction(write=write):
            yield self._database

    def _query(self, sql: str, values: Values = ()) -> Rows:
        with self._transaction(write=False) as database:
            return database.execute(sql, values)


def _point(row: Sequence[Any]) -> Point:
    *simple, environment, variables, reason, metrics, definition, added_s, metric, unit, better = row
    facts = _facts(environment), _facts(variables), reason, _facts(metrics), definition, added_s
    return Point(*(*simple, *facts, metric_of(metric, unit, better)))


@lru_cache(maxsize=1024)
def _facts(text: str) -> Any:
    """Environment or metrics of a job; runs share most of them, and their points one object."""
    return json.loads(text)
