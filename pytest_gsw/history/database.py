"""The interface of a history's database: one dialect of SQL serves both kinds."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pytest_gsw.common.files import SHARED, make_directory, relative_path
from pytest_gsw.errors import GswError


class HistoryError(GswError):
    """A failed request to the history. A row is judged nevertheless, by its tolerance alone."""


class HistoryUnavailableError(HistoryError):
    """The history cannot be reached now: its server does not answer, its file is locked, its disk is full."""


class HistoryUnusableError(HistoryError):
    """A database that this release cannot use as a history; the message has the next step, and records wait."""


#: The values of a row, or of the placeholders ``?``.
Values: TypeAlias = Sequence[Any]
Rows: TypeAlias = list[tuple[Any, ...]]


#: The longest that a session waits for its history, in all.
SESSION_WAIT_S = 60.0


class WaitBudget:
    """The time for which a history may be waited for: no limit for a command, one for all waits of a session.

    After the first silence, a session waits no more: its records wait in the spool.

    Args:
        whole_s: The time for all waits together.
    """

    def __init__(self, whole_s: float = math.inf) -> None:
        self._whole_s = self.left_s = whole_s
        self._why = ""

    def end(self, reason: str) -> str:
        """End all waits of a session, by a wait that was not answered; return the first reason, and the end."""
        if self._whole_s == math.inf:
            return reason
        self.left_s = 0.0
        self._why = self._why or f"{reason}; not asked again in this session, which waits {self._whole_s:g} s in all"
        return self._why


class Database(Protocol):
    """A database behind one connection, made at its first use and again after it was lost.

    SQL has ``?`` for values, and no other question or percent marks. Every method raises
    :class:`~pytest_gsw.history.database.HistoryError`, or :class:`~pytest_gsw.history.database.HistoryUnavailableError`
    if another try later may succeed.
    """

    #: Its place, for messages.
    shown: str
    #: Its place, the same from every directory and without a password.
    place: str
    #: The SQL type of a table's integer key, and that of bytes.
    key_sql: str
    bytes_sql: str

    def transaction(self, *, write: bool) -> AbstractContextManager[None]:
        """One transaction: all of its changes, or none."""

    def wait_for_schema(self) -> None:
        """Wait, in a writing transaction, until no other session changes the schema."""

    def has_table(self, name: str) -> bool:
        """True if there is such a table."""

    def execute(self, sql: str, values: Values = ()) -> Rows:
        """The rows of one statement."""

    def execute_each(self, sql: str, many: Sequence[Values]) -> list[Rows]:
        """The rows of one statement for each of many values, in their order."""

    def close(self) -> None:
        """Close the connection."""


# -- SQLite: the only module with ``sqlite3`` ------------------------------------------------------


#: Longest wait for another session's transaction; each takes milliseconds.
BUSY_TIMEOUT_S = 30.0


class SqliteDatabase:
    """A SQLite file.

    The journal is the default rollback journal. A write-ahead log would let readers and a writer work at the
    same time, but needs shared memory, which does not work on the network file systems with clusters' results.
    A history takes only one short transaction for each delivery.

    Args:
        path: The file; it is made with the first transaction that writes.
        budget: The time for all waits for other sessions' transactions.
    """

    key_sql = "INTEGER PRIMARY KEY"
    bytes_sql = "BLOB"

    def __init__(self, path: Path, budget: WaitBudget | None = None) -> None:
        self._path = path
        self._budget = budget or WaitBudget()
        self.shown = str(relative_path(path))
        self.place = _place(path)
        self._connection: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[None]:
        """One transaction: all of its changes, or none."""
        # A transaction that reads first and then writes would fail if another one wrote in between.
        self.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(HistoryError):  # the first error counts, and it may have rolled back
                self.execute("ROLLBACK")
            raise

    def wait_for_schema(self) -> None:
        """Return at once: a writing transaction is exclusive already."""

    def has_table(self, name: str) -> bool:
        """True if there is such a table.

        Raises:
            HistoryUnusableError: It is the database of another program.
        """
        tables = {str(found) for (found,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not any(table.startswith("gsw_") for table in tables):
            raise HistoryUnusableError(
                f"{self.shown} is the database of another program: it has the tables {', '.join(sorted(tables)[:5])}\n"
                "next: name another file with --history=FILE"
            )
        return name in tables

    def execute(self, sql: str, values: Values = ()) -> Rows:
        """The rows of one statement."""
        with self._converting_errors():
            return self._connected().execute(sql, values).fetchall()

    def execute_each(self, sql: str, many: Sequence[Values]) -> list[Rows]:
        """The rows of one statement for each of many values, in their order."""
        with self._converting_errors():
            connection = self._connected()
            return [connection.execute(sql, values).fetchall() for values in many]

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                make_directory(self._path.absolute().parent)
                with contextlib.suppress(FileExistsError):  # SQLite itself would make it world-writable
                    os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SHARED))
            except OSError as error:
                raise HistoryUnavailableError(f"{self.shown} cannot be made: {error.strerror}") from None
            limit_s = max(0.0, min(BUSY_TIMEOUT_S, self._budget.left_s))
            self._connection = sqlite3.connect(self._path, timeout=limit_s, isolation_level=None)
        return self._connection

    @contextlib.contextmanager
    def _converting_errors(self) -> Iterator[None]:
        """Convert SQLite's errors into those of a history."""
        try:
            yield
        except sqlite3.OperationalError as error:  # locked, full, read-only, an I/O error
            why = str(error)
            if "locked" in why:
                self.close()  # the next connection waits no more
                why = self._budget.end(why)
            raise HistoryUnavailableError(f"the history {self.shown} cannot be used now: {why}") from None
        except (sqlite3.Error, OverflowError, ValueError) as error:  # the last of a name with a zero byte
            raise HistoryError(f"the history {self.shown} does not take this: {error}") from None


def _place(path: Path) -> str:
    """The target of a path; the path itself if a link to itself or a zero byte prevents resolving it."""
    try:
        return str(path.resolve())
    except (OSError, RuntimeError, ValueError):
        return str(path.absolute())
