"""A history: records go in, series of points and whole records come out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_gsw.common.redact import printable
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.codec import body_text, decode, encode, record_text
from pytest_gsw.history.database import Database, Rows
from pytest_gsw.history.errors import HistoryError
from pytest_gsw.history.model import (
    JobPoint,
    Point,
    RunSummary,
    SeriesKey,
    by_run,
    points_of,
    record_time_s,
    series_key,
)
from pytest_gsw.history.postgresql import PostgresqlDatabase, is_postgresql
from pytest_gsw.history.schema import migrate
from pytest_gsw.history.sqlite import SqliteDatabase
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import row_matches

#: Where a history is below the directory of results.
NAME = "history.sqlite"
#: The environment variable that names the history, where no option does.
VARIABLE = "GSW_HISTORY"

#: How libpq takes a database that is no URL: ``host=db password=x``. No file that anybody means is named so.
_PAIRS = re.compile(r"^(?:host|hostaddr|port|dbname|user|password|passfile|service)\s*=|=.*\s|\s.*=", re.DOTALL)

#: More than any series has; SQLite knows no "LIMIT ALL".
_ALL = 2**62

# The condition is that of model.rank().
_UPSERT_RECORD = """
INSERT INTO gsw_record (run_id, node_id, row_id, cluster, definition, outcome, time_s, recorded_s)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, node_id) DO UPDATE SET row_id = excluded.row_id, cluster = excluded.cluster,
    definition = excluded.definition, outcome = excluded.outcome, time_s = excluded.time_s,
    recorded_s = excluded.recorded_s
WHERE (CASE excluded.outcome WHEN 'error' THEN 0 ELSE 1 END, excluded.recorded_s)
    >= (CASE gsw_record.outcome WHEN 'error' THEN 0 ELSE 1 END, gsw_record.recorded_s)"""

# What is there of a record, and after the statement above: what nobody else changes before this transaction ends.
_STORED = """
SELECT r.id, r.outcome, r.recorded_s, b.body FROM gsw_record r LEFT JOIN gsw_body b ON b.record_id = r.id
WHERE r.run_id = ? AND r.node_id = ?"""

_INSERT_POINT = """
INSERT INTO gsw_point (record_id, series_id, job, run_id, job_id, time_s, judged_s, outcome, nodes, image, environment,
    reason, metrics)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (record_id, job) DO NOTHING"""

# A job counts once however often it was recorded. A replay records it again, in a later run. An import has its time
# from the log's last change, so that the session's own record of it, whenever that arrives, is known by the job's id
# within two days, in which no id comes back.
_NEWEST_POINTS = """
FROM gsw_point p
WHERE p.series_id = ? AND NOT EXISTS (
    SELECT 1 FROM gsw_point q
    WHERE q.series_id = p.series_id AND q.job = p.job AND (q.run_id, q.record_id) < (p.run_id, p.record_id)
) AND NOT (substr(p.run_id, 1, 7) = 'import-' AND EXISTS (
    SELECT 1 FROM gsw_point q
    WHERE q.series_id = p.series_id AND q.time_s BETWEEN p.time_s - 172800 AND p.time_s + 172800
        AND q.job_id = p.job_id AND substr(q.run_id, 1, 7) <> 'import-'
))
ORDER BY p.time_s DESC, p.run_id DESC, p.job DESC LIMIT ?"""
_POINTS = (
    "SELECT p.run_id, p.job_id, p.time_s, p.judged_s, p.outcome, p.nodes, p.image, p.environment, p.reason, p.metrics"
    f"{_NEWEST_POINTS}"
)
_TIMES = f"SELECT p.judged_s {_NEWEST_POINTS}"

_RUNS = """
SELECT run_id, cluster, outcome, COUNT(*), MIN(time_s), MAX(time_s) FROM gsw_record
WHERE run_id IN (SELECT DISTINCT run_id FROM gsw_record ORDER BY run_id DESC LIMIT ?)
GROUP BY run_id, cluster, outcome"""


class History:
    """All that is remembered of runs.

    Nothing is connected before it is needed. A connection that was lost is made again; what was asked meanwhile
    raises :class:`~pytest_gsw.history.errors.HistoryAwayError`, and may be asked again.

    Args:
        database: Where it is kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._migrated = False

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
            return self._add(newest)

    def _add(self, records: Mapping[tuple[str, str], Record]) -> int:
        database = self._database
        series_ids = self._series_ids({key for record in records.values() if (key := series_key(record)) is not None})
        database.execute_many(_UPSERT_RECORD, [_record_values(record) for record in records.values()])
        stored = database.execute_each(_STORED, [_plain(record.run_id, record.node_id) for record in records.values()])
        taken: dict[int, Record] = {}
        changed = 0
        for record, ((record_id, outcome, recorded_s, body),) in zip(records.values(), stored, strict=True):
            if (outcome, recorded_s) == (*_plain(record.outcome), record.recorded_s or 0.0):
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
        return changed

    def points(self, key: SeriesKey, last: int | None = None) -> tuple[Point, ...]:
        """The points of one series, the oldest first.

        Args:
            key: The series.
            last: Only so many, the newest.
        """
        return self.points_of([key], last)[key]

    def points_of(self, keys: Iterable[SeriesKey], last: int | None = None) -> Mapping[SeriesKey, tuple[Point, ...]]:
        """The points of many series, each the oldest first; nothing of one that is not there.

        Args:
            keys: The series.
            last: Only so many of each, the newest.
        """
        found = self._newest(_POINTS, keys, last)
        return {key: tuple(self._point(key, row) for row in rows) for key, rows in found.items()}

    def _point(self, key: SeriesKey, row: tuple[Any, ...]) -> Point:
        try:
            return _point(row)
        except ValueError as error:
            raise HistoryError(f"a point of {key.row} in {self.shown} cannot be read: {error}") from None

    def times_of(self, keys: Iterable[SeriesKey], last: int | None = None) -> Mapping[SeriesKey, tuple[float, ...]]:
        """The seconds of the points of many series, which is less to read: noise needs no more.

        Args:
            keys: The series.
            last: Only so many of each, the newest.
        """
        found = self._newest(_TIMES, keys, last)
        return {key: tuple(judged_s for (judged_s,) in rows) for key, rows in found.items()}

    def _newest(self, sql: str, keys: Iterable[SeriesKey], last: int | None) -> Mapping[SeriesKey, Rows]:
        """What a query says of the newest points of each series, of the oldest of them first."""
        wanted = list(dict.fromkeys(keys))
        self._prepare()
        with self._database.transaction(write=False):
            ids = self._known_ids(wanted)
            known = [key for key in wanted if key in ids]
            found = self._database.execute_each(sql, [(ids[key], _ALL if last is None else last) for key in known])
        rows = dict(zip(known, found, strict=True))
        return {key: rows.get(key, [])[::-1] for key in wanted}

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
        patterns = [row.rpartition("::")[2] for row in rows]
        chosen = [
            key
            for key in newest
            if cluster in {None, key.cluster}
            and (not patterns or any(row_matches(pattern, key.row) for pattern in patterns))
        ]
        return tuple(sorted(chosen, key=lambda key: (key.row, key.cluster, -newest[key], key.definition)))

    def runs(self, last: int | None = None) -> tuple[RunSummary, ...]:
        """The runs, in the order of their names, which begin with the time at which they began.

        Args:
            last: Only so many, the last by name.
        """
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

    def records(self, run_id: str) -> tuple[Record, ...]:
        """The records of one run, in the order of their node ids.

        Raises:
            HistoryError: One of them was written by a later release, and would be misread.
        """
        self._prepare()
        with self._database.transaction(write=False):
            found = self._database.execute(
                "SELECT r.node_id, b.body FROM gsw_record r JOIN gsw_body b ON b.record_id = r.id WHERE r.run_id = ?",
                _plain(run_id),
            )
        try:
            return tuple(decode(body) for _, body in sorted(found))
        except ValueError as error:
            raise HistoryError(f"a record of run {run_id} in {self.shown} cannot be read: {error}") from None

    def has_job(self, row: str, cluster: str, job_id: str) -> bool:
        """Whether a job of this id is a point of a row, on whatever day it ended and under whatever definition."""
        self._prepare()
        with self._database.transaction(write=False):
            found = self._database.execute(
                "SELECT 1 FROM gsw_point p JOIN gsw_series s ON s.id = p.series_id"
                " WHERE s.row_id = ? AND s.cluster = ? AND p.job_id = ? LIMIT 1",
                _plain(row, cluster, job_id),
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
        if not self._migrated:
            migrate(self._database)
            self._migrated = True

    def _series_ids(self, keys: Iterable[SeriesKey]) -> Mapping[SeriesKey, int]:
        """The ids of series, which are made where there are none."""
        wanted = sorted(keys)
        ids = self._known_ids(wanted)
        self._database.execute_many(
            "INSERT INTO gsw_series (row_id, cluster, definition) VALUES (?, ?, ?)"
            " ON CONFLICT (row_id, cluster, definition) DO NOTHING",
            [_key_values(key) for key in wanted if key not in ids],
        )
        return {**ids, **self._known_ids([key for key in wanted if key not in ids])}

    def _known_ids(self, keys: Sequence[SeriesKey]) -> dict[SeriesKey, int]:
        found = self._database.execute_each(
            "SELECT id FROM gsw_series WHERE row_id = ? AND cluster = ? AND definition = ?",
            [_key_values(key) for key in keys],
        )
        return {key: rows[0][0] for key, rows in zip(keys, found, strict=True) if rows}


def open_history(where: str | Path) -> History:
    """The history at a path or at a URL of PostgreSQL; nothing is connected yet.

    Args:
        where: A SQLite file, or ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``.

    Raises:
        ConfigurationError: It is neither, or psycopg is not installed.
    """
    if isinstance(where, str) and is_postgresql(where):
        return History(PostgresqlDatabase(where))
    if isinstance(where, str) and "://" in where:  # which may have a password in it
        raise ConfigurationError(f"the history: got {_no_file(where)}, wanted a SQLite file or a postgresql:// URL")
    return History(SqliteDatabase(Path(where)))


def history_place(
    given: str | None,
    results: Path,
    environ: Mapping[str, str] = os.environ,
    base: Path = Path(),
    option: str = "--history",
) -> str | Path | None:
    """Where the history is: as an option says, else as the environment says, else a file beside the runs.

    Args:
        given: What the option says, if anything.
        results: The directory of results.
        environ: The environment.
        base: What a path is relative to.
        option: The option, for messages.

    Returns:
        A URL of PostgreSQL, the path of a SQLite file, or ``None`` where the word ``none`` asks for no history.

    Raises:
        ConfigurationError: What is said is none of these. The text does not show it: it may have a password in it.
    """
    source, text = (option, given.strip()) if given and given.strip() else (VARIABLE, environ.get(VARIABLE, "").strip())
    if text.lower() == "none":
        return None
    if is_postgresql(text):
        return text
    problem = _no_file(text)
    if problem is not None:
        raise ConfigurationError(f"{source}: got {problem}, wanted a SQLite file, a postgresql:// URL, or 'none'")
    if not text:
        return results / NAME
    try:
        return base / Path(text).expanduser()
    except RuntimeError:
        home = Path(text).parts[0]
        raise ConfigurationError(f"{source}: nobody knows the home directory of '{home}'") from None


def _no_file(text: str) -> str | None:
    """What a text is that is no name of a file, without what may be a password in it; ``None`` if it may be one."""
    url = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if url is not None:
        return f"a URL of '{url[1]}'"
    if "://" in text or "\0" in text or _PAIRS.search(text) is not None:
        return "what is no name of a file (it is not shown, because it may hold a password)"
    return None


def _record_values(record: Record) -> tuple[Any, ...]:
    texts = (record.run_id, record.node_id, record.row, record.cluster, record.definition, record.outcome)
    return (*_plain(*texts), record_time_s(record), record.recorded_s or 0.0)


def _is_body_of(body: bytes | None, record: Record) -> bool:
    """Whether a record is kept as it is."""
    return body is not None and body_text(body) == record_text(record)


def _point_values(one: JobPoint) -> tuple[Any, ...]:
    point = one.point
    return (
        *_plain(one.job, point.run_id, point.job_id),
        point.time_s,
        point.judged_s,
        *_plain(point.outcome, point.nodes),
        None if point.image is None else printable(point.image),
        json.dumps(dict(point.environment), sort_keys=True),
        *_plain(point.reason),
        json.dumps(dict(point.metrics), sort_keys=True),
    )


def _point(row: tuple[Any, ...]) -> Point:
    run_id, job_id, time_s, judged_s, outcome, nodes, image, environment, reason, metrics = row
    ran_with, measured = _facts(environment), _facts(metrics)
    return Point(run_id, job_id, time_s, judged_s, outcome, nodes, image, ran_with, reason, measured)


@lru_cache(maxsize=1024)
def _facts(text: str) -> Mapping[str, Any]:
    """What a job ran with, or measured; nights have mostly the same, and their points one value of it."""
    found: Mapping[str, Any] = json.loads(text)
    return found


def _key_values(key: SeriesKey) -> tuple[str, ...]:
    return _plain(key.row, key.cluster, key.definition)


def _plain(*texts: str) -> tuple[str, ...]:
    """Texts that every database takes: PostgreSQL stores no zero byte, and neither stores half a character."""
    return tuple(printable(text) for text in texts)
