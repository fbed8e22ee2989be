"""PostgreSQL: the only module with ``psycopg``, imported if a URL needs it."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote

from pytest_gsw.common.masks import MASK, is_secret
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history import database
from pytest_gsw.history.database import HistoryError, HistoryUnavailableError, HistoryUnusableError, Rows, Values

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import PQGen

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

Result = TypeVar("Result")

#: Timeout of a connection and of the start of a transaction: no session waits longer for its history.
CONNECT_TIMEOUT_S = 10
#: Timeout of any other statement; it is also set on the server, but not relied on there.
STATEMENT_TIMEOUT_S = 60
#: Timeout of each step of the schema, perhaps an index over millions of points, and of another session's steps.
SCHEMA_TIMEOUT_S = 600
#: A connection with packets unacknowledged for so long is lost.
_SILENCE_MS = 30_000
#: Interval at which psycopg resumes a wait for the server.
_LOOK_S = 0.1

#: PostgreSQL's name of the only encoding that preserves every text.
_ENCODING = "UTF8"

#: Any number that no other program is likely to lock: "gsw" in ASCII.
_SCHEMA_LOCK = 0x677377

# libpq's URLs without ambiguous ones: with an unescaped "@" or "/" in a password, libpq reads the rest of the password
# as the server's name, and messages contain server names.
_LETTERS = r"[A-Za-z0-9._~!$&'()*+,;=%-]*"
_URL = re.compile(
    rf"(?P<scheme>postgres(?:ql)?)://(?:(?P<user>{_LETTERS})(?::(?P<password>{_LETTERS}))?@)?"
    r"(?P<hosts>[A-Za-z0-9._~%:,\[\]-]*)(?P<name>/[^/?#@\s]*)?(?P<options>\?[a-z_]+=[^?#@&\s]*(?:&[a-z_]+=[^?#@&\s]*)*)?"
)


def shown_url(url: str) -> str:
    """A URL without its secrets.

    Raises:
        ConfigurationError: Its secret parts are ambiguous.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ConfigurationError(
            "the history is named by no URL of PostgreSQL (its text is not shown, because it may hold a password)\n"
            "wanted: postgresql://HOST:PORT/DATABASE?user=NAME, or with user and password before the host, in which "
            "'@' is written %40, '/' %2F, '?' %3F and '#' %23\n"
            "next: leave the password out, and put it into ~/.pgpass"
        )
    options = [
        f"{name}={MASK if is_secret(name) else value}"
        for name, _, value in (option.partition("=") for option in (match["options"] or "?")[1:].split("&") if option)
    ]
    place = "" if match["user"] is None else f"{MASK}@"
    query = f"?{'&'.join(options)}" if options else ""
    return f"{match['scheme']}://{place}{match['hosts']}{match['name'] or ''}{query}"


class PostgresqlDatabase:
    """A PostgreSQL database.

    Args:
        url: ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``.
        budget: The time for all waits for the server.

    Raises:
        ConfigurationError: psycopg is not installed, or the URL is invalid.
    """

    key_sql = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    bytes_sql = "BYTEA"

    def __init__(self, url: str, budget: database.WaitBudget | None = None) -> None:
        self._budget = budget or database.WaitBudget()
        self.shown = self.place = shown_url(url)
        self._secrets = _secrets(url)
        try:
            import psycopg
        except ImportError:
            raise ConfigurationError(
                f"the history {self.shown} needs psycopg, which is not installed\n"
                "next: pip install '.[postgresql]' in a checkout of pytest-gsw"
            ) from None
        self._psycopg = psycopg
        self._url = url
        self._connection: Connection | None = None
        self._limit_s: float = STATEMENT_TIMEOUT_S

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[None]:
        """One transaction: all of its changes, or none."""
        self._begin("BEGIN" if write else "BEGIN READ ONLY")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._connection is not None:  # a connection that is lost has rolled back
                with contextlib.suppress(HistoryError):
                    self.execute("ROLLBACK")
            raise
        finally:
            self._limit_s = STATEMENT_TIMEOUT_S

    def wait_for_schema(self) -> None:
        """Wait, in a writing transaction, until no other session changes the schema."""
        self._limit_s = SCHEMA_TIMEOUT_S
        self.execute(f"SET LOCAL statement_timeout = {SCHEMA_TIMEOUT_S * 1000}")
        self.execute("SELECT pg_advisory_xact_lock(?)", (_SCHEMA_LOCK,))

    def has_table(self, name: str) -> bool:
        """True if there is such a table."""
        # Not to_regclass(): it opens no table, and would miss one that another session has made meanwhile.
        return bool(self.execute("SELECT 1 FROM pg_class WHERE relname = ? AND pg_table_is_visible(oid)", (name,)))

    def execute(self, sql: str, values: Values = ()) -> Rows:
        """The rows of one statement."""
        return self._call(lambda connection: _rows(connection, sql, values))

    def execute_each(self, sql: str, many: Sequence[Values]) -> list[Rows]:
        """The rows of one statement for each of many values, in their order."""
        return self._call(lambda connection: _rows_of_each(connection, sql, many)) if many else []

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(self._psycopg.Error):
                connection.close()

    def _begin(self, sql: str) -> None:
        """Begin a transaction, on a new connection if the server has closed the last one."""
        self._limit_s = CONNECT_TIMEOUT_S
        try:
            if self._connection is not None:
                with contextlib.suppress(HistoryUnavailableError):
                    self.execute(sql)
                    return
            self.execute(sql)
        finally:
            self._limit_s = STATEMENT_TIMEOUT_S

    def _call(self, call: Callable[[Connection], Result]) -> Result:
        """The result of a call of psycopg; the connection is closed after its own errors and interrupted waits."""
        try:
            return call(self._connected())
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            self.close()
            raise HistoryUnavailableError(f"the history {self.shown} does not answer: {self._safe(error)}") from None
        except self._psycopg.Error as error:
            raise HistoryError(f"the history {self.shown} refused: {self._safe(error)}") from None
        except BaseException:  # Ctrl-C among them
            self.close()
            raise

    def _connected(self) -> Connection:
        if self._budget.left_s <= 0:
            raise self._overdue("its answers took too long")
        if self._connection is None:
            self._connection = self._connect()
            self._check(self._connection)
        return self._connection

    def _connect(self) -> Connection:
        limit_s, begin_s = self._connect_timeout_s(), time.monotonic()
        try:
            return self._connection_class.connect(
                self._url,
                autocommit=True,
                application_name="pytest-gsw",
                client_encoding=_ENCODING,
                connect_timeout=limit_s,
                tcp_user_timeout=_SILENCE_MS,
            )
        except self._psycopg.errors.ConnectionTimeout:
            raise self._overdue(f"no answer within {limit_s:g} s") from None
        finally:
            self._budget.left_s -= time.monotonic() - begin_s

    def _check(self, connection: Connection) -> None:
        """Check a new connection: the server must answer and preserve all texts."""
        limit_s, self._limit_s = self._limit_s, self._connect_timeout_s()
        try:
            ((encoding, _),) = _rows(
                connection,
                "SELECT current_setting('server_encoding'), set_config('statement_timeout', ?, false)",
                (str(STATEMENT_TIMEOUT_S * 1000),),
            )
        finally:
            self._limit_s = limit_s
        if encoding != _ENCODING:
            raise HistoryUnusableError(
                f"the history {self.shown} is in a database with the encoding {encoding}, wanted {_ENCODING}\n"
                f"next: createdb --encoding={_ENCODING} --template=template0 NAME, and name that one"
            )

    def _connect_timeout_s(self) -> int:
        """The timeout of a connection to each server, in seconds: the URL's, or the default, within the budget."""
        of_url = self._psycopg.conninfo.conninfo_to_dict(self._url)
        timeout, servers = str(of_url.get("connect_timeout") or ""), str(of_url.get("host") or "").count(",") + 1
        limit_s = int(timeout) if re.fullmatch(r"[1-9][0-9]{0,5}", timeout) else CONNECT_TIMEOUT_S
        return int(max(1, min(limit_s, self._budget.left_s / servers)))

    @property
    def _connection_class(self) -> type[Connection]:
        """Psycopg's connection, with a limit to each wait for the server."""
        from psycopg import Connection, waiting

        limited = self._limited

        class Limited(Connection[tuple[Any, ...]]):
            def wait(self, gen: PQGen[Result], interval: float = _LOOK_S, timeout: float | None = None) -> Result:
                # Not psycopg's own: after Ctrl-C, that waits ten more seconds for a silent server.
                return waiting.wait(limited(gen), self.pgconn.socket, interval)

        return Limited

    def _limited(self, gen: PQGen[Result]) -> PQGen[Result]:
        """The steps of one request to the server; psycopg resumes each at least every ``_LOOK_S``."""
        limit_s, begin_s = min(self._limit_s, self._budget.left_s), time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if time.monotonic() - begin_s >= limit_s:
                    in_time = f"within {limit_s:g} s" if limit_s == self._limit_s else "in time"
                    raise self._overdue(f"no answer {in_time}")
                wanted = gen.send(ready)
        except StopIteration as done:
            result: Result = done.value
            return result
        finally:
            self._budget.left_s -= time.monotonic() - begin_s

    def _overdue(self, reason: str) -> psycopg.OperationalError:
        return self._psycopg.errors.ConnectionTimeout(self._budget.end(reason))

    def _safe(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return redact(text)


def _secrets(url: str) -> tuple[str, ...]:
    """The secret parts of a URL, as written and decoded; the longest first."""
    match = _URL.fullmatch(url)
    assert match is not None  # its shown form was made
    options = (option.partition("=") for option in (match["options"] or "?")[1:].split("&"))
    written = {match["password"] or "", *(value for name, _, value in options if is_secret(name))}
    return tuple(sorted({*written, *map(unquote, written)} - {""}, key=len, reverse=True))


def _rows(connection: Connection, sql: str, values: Values = ()) -> Rows:
    cursor = connection.execute(_convert_sql(sql), values)
    return cursor.fetchall() if cursor.description else []


def _rows_of_each(connection: Connection, sql: str, many: Sequence[Values]) -> list[Rows]:
    with connection.cursor() as cursor:
        # psycopg sends them all before it waits for the first answer.
        cursor.executemany(_convert_sql(sql), many, returning=True)
        results = [cursor.fetchall() if cursor.description else []]
        while cursor.nextset():
            results.append(cursor.fetchall() if cursor.description else [])
        return results


def _convert_sql(sql: str) -> Any:
    """SQL for psycopg, whose type requires a literal, to prevent values in SQL; there are none in ours."""
    return sql.replace("?", "%s")
