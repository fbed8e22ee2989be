"""A history: records go in, series of points and whole records come out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any

from pytest_gsw.common.words import by_number
from pytest_gsw.history.adding import Failure, add_records, decode, failures_of_cluster, plain
from pytest_gsw.history.database import Database, Rows
from pytest_gsw.history.errors import HistoryError, HistoryUnusableError
from pytest_gsw.history.events import Event, add_event, read_events, standing
from pytest_gsw.history.model import LineKey, Point, RunSummary, SeriesKey, Told, by_run
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import row_matches

# -- the schema, version 1 -------------------------------------------------------------------------


VERSION = 1

# Texts and numbers that queries need are columns; whole records are in a table of their own, so that what is
# scanned stays small.
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
        UNIQUE (row_id, cluster, definition)
    )""",
    "CREATE INDEX gsw_series_by_cluster ON gsw_series (cluster, row_id)",
    # One measured job, once for each record that tells of it; the first run's counts. Variables that are not known are
    # JSON's null.
    """CREATE TABLE gsw_point (
        record_id BIGINT NOT NULL REFERENCES gsw_record (id),
        series_id BIGINT NOT NULL REFERENCES gsw_series (id),
        job TEXT NOT NULL,
        run_id TEXT NOT NULL,
        job_id TEXT NOT NULL,
        time_s DOUBLE PRECISION NOT NULL,
        judged_s DOUBLE PRECISION NOT NULL,
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
    # A job that the infrastructure failed, of which no point tells.
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


def make_schema(database: Database) -> None:
    """Give an empty database the schema.

    Raises:
        HistoryUnusableError: It is of another version.
        HistoryError: It cannot be read or changed.
    """
    if _has_schema(database):
        return  # as each time but the first, and without a lock
    with database.transaction(write=True):
        database.wait_for_schema()
        if not _has_schema(database):  # another session may have been faster
            for sql in _TABLES:
                database.execute(sql.format(key=database.key_sql, bytes=database.bytes_sql))
            database.execute("INSERT INTO gsw_schema (version) VALUES (?)", (VERSION,))


def _has_schema(database: Database) -> bool:
    if not database.has_table("gsw_schema"):
        return False
    found = [version for (version,) in database.execute("SELECT version FROM gsw_schema")]
    if found != [VERSION]:
        of = f"is of version {found[0]}" if len(found) == 1 else "does not say of which version it is"
        raise HistoryUnusableError(
            f"the history {database.shown} {of}, and this pytest-gsw knows version {VERSION}\n"
            "next: name another one, and fill it with pytest-gsw history --add .gsw/runs/*"
        )
    return True


# -- the history -----------------------------------------------------------------------------------


#: More than any series has; SQLite knows no "LIMIT ALL".
_ALL = 2**62

# A job counts once however often it was recorded. A replay records it again, in a later run. An import has its time
# from the log's last change, so that the session's own record of it, whenever that arrives, is known by the job's id
# within two days, in which no id comes back.
_ONCE = """NOT EXISTS (
    SELECT 1 FROM gsw_point q
    WHERE q.series_id = p.series_id AND q.job = p.job AND (q.run_id, q.record_id) < (p.run_id, p.record_id)
) AND NOT (substr(p.run_id, 1, 7) = 'import-' AND EXISTS (
    SELECT 1 FROM gsw_point q
    WHERE q.series_id = p.series_id AND q.time_s BETWEEN p.time_s - 172800 AND p.time_s + 172800
        AND q.job_id = p.job_id AND substr(q.run_id, 1, 7) <> 'import-'
))"""
_COLUMNS = """
p.run_id, p.job_id, p.time_s, p.judged_s, p.outcome, p.nodes, p.image, p.environment, p.reason, p.metrics,
    p.variables, s.definition, (SELECT added_s FROM gsw_record WHERE id = p.record_id)"""
_NIGHTS = f"""
SELECT s.row_id, CASE s.experiment WHEN '' THEN s.definition ELSE s.experiment END, {_COLUMNS}
FROM gsw_series s JOIN gsw_point p ON p.series_id = s.id
WHERE s.cluster = ? AND p.time_s >= ? AND {_ONCE}
ORDER BY p.time_s, p.run_id, p.job"""  # noqa: S608 - names of ours

_RUNS = """
SELECT run_id, cluster, outcome, COUNT(*), MIN(time_s), MAX(time_s) FROM gsw_record
WHERE run_id IN (SELECT DISTINCT run_id FROM gsw_record ORDER BY run_id DESC LIMIT ?)
GROUP BY run_id, cluster, outcome"""
# An import is of one log, and no night.
_OUTCOMES = """
SELECT r.row_id, r.run_id, r.time_s, r.outcome FROM gsw_record r JOIN (
    SELECT run_id FROM gsw_record WHERE cluster = ? AND substr(run_id, 1, 7) <> 'import-'
    GROUP BY run_id ORDER BY MAX(time_s) DESC LIMIT ?
) n ON n.run_id = r.run_id WHERE r.cluster = ? ORDER BY r.time_s, r.run_id"""


class History:
    """All that is remembered of runs.

    Nothing is connected before it is needed. A connection that was lost is made again; what was asked meanwhile
    raises :class:`~pytest_gsw.history.errors.HistoryAwayError`, and may be asked again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_schema = False

    @property
    def shown(self) -> str:
        """Where it is, fit to be shown: without a password."""
        return self._database.shown

    @property
    def place(self) -> str:
        """Where it is, the same from every directory and without a password."""
        return self._database.place

    def add(self, records: Iterable[Record]) -> int:
        """Take in records: all of them, or none if that fails.

        A record that is there already changes nothing, and one that was written later of the same row in the same
        run takes the earlier one's place, in whatever order they come, see
        :func:`~pytest_gsw.history.model.rank`.

        Returns:
            How many have changed anything.

        Raises:
            HistoryError: They cannot be taken in.
        """
        # In one order everywhere: two sessions that wait for each other's rows would wait for ever.
        newest = dict(sorted(by_run(records).items()))
        if not newest:
            return 0
        self._prepare()
        with self._database.transaction(write=True):
            return add_records(self._database, newest)

    def _point(self, key: SeriesKey | LineKey, row: tuple[Any, ...]) -> Point:
        try:
            return _point(row)
        except ValueError as error:
            raise HistoryError(f"a point of {key.row} in {self.shown} cannot be read: {error}") from None

    def nights(self, cluster: str, since_s: float = 0.0) -> Mapping[LineKey, tuple[Point, ...]]:
        """All points of a cluster, the oldest first, by row and experiment; one query."""
        self._prepare()
        with self._database.transaction(write=False):
            found = self._database.execute(_NIGHTS, (*plain(cluster), since_s))
        nights: dict[LineKey, list[Point]] = {}
        for row, experiment, *point in found:
            key = LineKey(row, cluster, experiment)
            nights.setdefault(key, []).append(self._point(key, tuple(point)))
        return {key: tuple(points) for key, points in nights.items()}

    def decide(self, event: Event) -> Event:
        """Keep what was decided, for good; the event with its number.

        Raises:
            HistoryError: It cannot be kept, or takes back what is not there.
        """
        self._prepare()
        with self._database.transaction(write=True):
            return add_event(self._database, event)

    def events(self, cluster: str | None = None, kind: str | None = None) -> tuple[Event, ...]:
        """What was decided and not taken back, in the order in which it was; of one cluster, of one kind."""
        self._prepare()
        with self._database.transaction(write=False):
            found = standing(read_events(self._database))
        return tuple(one for one in found if cluster in {None, one.cluster} and kind in {None, one.kind})

    def failures(self, cluster: str, since_s: float = 0.0) -> tuple[Failure, ...]:
        """The jobs of a cluster that the infrastructure failed, the oldest first."""
        self._prepare()
        with self._database.transaction(write=False):
            return failures_of_cluster(self._database, cluster, since_s)

    def series(self, rows: Sequence[str] = (), cluster: str | None = None) -> tuple[SeriesKey, ...]:
        """The series that have points: by row, cluster and time, that with the newest point first.

        Args:
            rows: Ids or node ids of rows, in which ``*`` and ``?`` stand for any letters; all by default.
            cluster: Only this cluster's.
        """
        self._prepare()
        with self._database.transaction(write=False):
            found = self._database.execute(
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

    def runs(self, last: int | None = None) -> tuple[RunSummary, ...]:
        """The runs, or the last ones, in the order of their names, which begin with the time at which they began."""
        self._prepare()
        with self._database.transaction(write=False):
            found = self._database.execute(_RUNS, (_ALL if last is None else last,))
        runs: dict[tuple[str, str], RunSummary] = {}
        for run_id, cluster, outcome, rows, first_s, last_s in sorted(found):
            known = runs.get((run_id, cluster), RunSummary(run_id, cluster, first_s, last_s, {}))
            runs[run_id, cluster] = RunSummary(
                run_id,
                cluster,
                min(known.first_s, first_s),
                max(known.last_s, last_s),
                {**known.outcomes, outcome: rows},
            )
        return tuple(runs.values())

    def outcomes(self, cluster: str, last: int) -> Mapping[str, tuple[Told, ...]]:
        """By row, what the last runs of a cluster came to, measured or not, the oldest first."""
        self._prepare()
        with self._database.transaction(write=False):
            found = self._database.execute(_OUTCOMES, (*plain(cluster), last, *plain(cluster)))
        return _told_by_row(found)

    def records(self, run_id: str, rows: Collection[str] | None = None) -> tuple[Record, ...]:
        """The records of one run, or of the rows with these ids, in the order of their node ids.

        Raises:
            HistoryError: One of them cannot be read.
        """
        self._prepare()
        with self._database.transaction(write=False):
            found = self._database.execute(
                "SELECT node_id, row_id, body FROM gsw_record r JOIN gsw_body b ON b.record_id = r.id WHERE run_id = ?",
                plain(run_id),
            )
        try:
            return tuple(decode(body) for _, row, body in sorted(found) if rows is None or row in rows)
        except ValueError as error:
            raise HistoryError(f"a record of run {run_id} in {self.shown} cannot be read: {error}") from None

    def has_job(self, row: str, cluster: str, job_id: str) -> bool:
        """Whether a job of this id is a point of a row, on whatever day it ended and under whatever definition."""
        self._prepare()
        with self._database.transaction(write=False):
            found = self._database.execute(
                "SELECT 1 FROM gsw_point p JOIN gsw_series s ON s.id = p.series_id"
                " WHERE s.row_id = ? AND s.cluster = ? AND p.job_id = ? LIMIT 1",
                plain(row, cluster, job_id),
            )
        return bool(found)

    def close(self) -> None:
        """Let go of the connection."""
        self._database.close()

    def __enter__(self) -> History:  # noqa: PYI034 - typing.Self is Python 3.11's
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        if not self._has_schema:
            make_schema(self._database)
            self._has_schema = True


def _told_by_row(found: Rows) -> Mapping[str, tuple[Told, ...]]:
    told: dict[str, list[Told]] = {}
    for row, *one in found:
        told.setdefault(row, []).append(Told(*one))
    return {row: tuple(of_row) for row, of_row in told.items()}


def _point(row: tuple[Any, ...]) -> Point:
    run_id, job_id, time_s, judged_s, outcome, nodes, image, environment, reason, metrics, variables, *rest = row
    definition, added_s = rest
    return Point(
        *(run_id, job_id, time_s, judged_s, outcome, nodes, image),
        environment=_facts(environment),
        variables=_facts(variables),
        reason=reason,
        metrics=_facts(metrics),
        definition=definition,
        added_s=added_s,
    )


@lru_cache(maxsize=1024)
def _facts(text: str) -> Any:
    """What a job ran with, or measured; nights have mostly the same, and their points one value of it."""
    return json.loads(text)
