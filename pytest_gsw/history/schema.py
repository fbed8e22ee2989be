"""The schema of a history, version 1."""

from __future__ import annotations

from pytest_gsw.history.database import Database
from pytest_gsw.history.errors import HistoryUnusableError

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
