"""The schema of a history, and how an older one becomes it: numbered steps, forward only.

A step is never changed once it was released: databases have gone through it. A change is a step of its own,
at the end.
"""

from __future__ import annotations

from pytest_gsw.history.database import Database
from pytest_gsw.history.errors import HistoryUnusableError
from pytest_gsw.history.failing import keep_failures_of_before

# Texts and numbers that queries need are columns; whole records are in a table of their own, so that what is
# scanned stays small. Version 1.
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
        UNIQUE (run_id, node_id)
    )""",
    "CREATE TABLE gsw_body (record_id BIGINT PRIMARY KEY REFERENCES gsw_record (id), body {bytes} NOT NULL)",
    """CREATE TABLE gsw_series (
        id {key},
        row_id TEXT NOT NULL,
        cluster TEXT NOT NULL,
        definition TEXT NOT NULL,
        UNIQUE (row_id, cluster, definition)
    )""",
    # One measured job, once for each record that tells of it; the first run's counts.
    """CREATE TABLE gsw_point (
        record_id BIGINT NOT NULL REFERENCES gsw_record (id),
        series_id BIGINT NOT NULL REFERENCES gsw_series (id),
        job TEXT NOT NULL,
        run_id TEXT NOT NULL,
        job_id TEXT NOT NULL,
        time_s DOUBLE PRECISION NOT NULL,
        judged_s DOUBLE PRECISION NOT NULL,
        outcome TEXT NOT NULL,
        nodes TEXT NOT NULL,
        image TEXT,
        environment TEXT NOT NULL,
        PRIMARY KEY (record_id, job)
    )""",
    "CREATE INDEX gsw_point_by_time ON gsw_point (series_id, time_s)",
    "CREATE INDEX gsw_point_by_job ON gsw_point (series_id, job, run_id, record_id)",
)

# Version 2: points say why their outcome was what it was, and runs are listed without reading every row's record.
_REASONS = (
    "ALTER TABLE gsw_point ADD COLUMN reason TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX gsw_record_by_run ON gsw_record (run_id, cluster, outcome, time_s)",
)

# Version 3: points have what was measured of the site's metrics, by key.
_METRICS = ("ALTER TABLE gsw_point ADD COLUMN metrics TEXT NOT NULL DEFAULT '{{}}'",)

# Version 4: series say of which experiment they are, records when they came, and decisions are kept: appended, and
# never changed.
_EXPERIMENTS = (
    "ALTER TABLE gsw_series ADD COLUMN experiment TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE gsw_record ADD COLUMN added_s DOUBLE PRECISION NOT NULL DEFAULT 0",
    "CREATE INDEX gsw_series_by_cluster ON gsw_series (cluster, row_id)",
    """CREATE TABLE gsw_event (
        id {key},
        time_s DOUBLE PRECISION NOT NULL,
        cluster TEXT NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        body TEXT NOT NULL,
        revokes BIGINT REFERENCES gsw_event (id)
    )""",
)

# Version 5: jobs that the infrastructure failed, of which no point tells.
_FAILURES = (
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
)

# Version 6: points have the variables that their jobs were given; JSON's null where these are not known.
_VARIABLES = ("ALTER TABLE gsw_point ADD COLUMN variables TEXT NOT NULL DEFAULT 'null'",)

#: The steps, the first of which makes an empty database one of version 1.
MIGRATIONS = (_TABLES, _REASONS, _METRICS, _EXPERIMENTS, _FAILURES, _VARIABLES)

VERSION = len(MIGRATIONS)


def migrate(database: Database) -> None:
    """Give a database the schema of this release.

    Raises:
        HistoryUnusableError: It is of a later one.
        HistoryError: It cannot be read or changed.
    """
    if _version(database) == VERSION:
        return  # as each time but the first, and without a lock
    with database.transaction(write=True):
        database.wait_for_schema()
        found = _version(database)  # another session may have been faster
        for statements in MIGRATIONS[found:]:
            for sql in statements:
                database.execute(sql.format(key=database.key_sql, bytes=database.bytes_sql))
        if 0 < found <= MIGRATIONS.index(_FAILURES):
            keep_failures_of_before(database)
        if found < VERSION:
            if found == 0:
                database.execute("CREATE TABLE gsw_schema (version BIGINT NOT NULL)")
                database.execute("INSERT INTO gsw_schema (version) VALUES (0)")
            database.execute("UPDATE gsw_schema SET version = ?", (VERSION,))


def _version(database: Database) -> int:
    """The version of a database, 0 of an empty one.

    Raises:
        HistoryUnusableError: It is later than this release's, or nobody can tell which it is.
    """
    if not database.has_table("gsw_schema"):
        return 0
    found = [version for (version,) in database.execute("SELECT version FROM gsw_schema")]
    if len(found) != 1 or not isinstance(found[0], int):
        raise HistoryUnusableError(
            f"the history {database.shown} does not say of which version it is: its table gsw_schema is damaged\n"
            "next: name another one, and fill it with pytest-gsw history --add .gsw/runs/*"
        )
    if found[0] > VERSION:
        raise HistoryUnusableError(
            f"the history {database.shown} is of version {found[0]}, this pytest-gsw knows versions up to {VERSION}\n"
            "next: pip install . in a newer checkout of pytest-gsw"
        )
    return found[0]
