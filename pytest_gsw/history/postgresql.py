"""PostgreSQL: the one door to ``psycopg``, which is imported where a URL asks for it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.database import Rows, Values
from pytest_gsw.history.errors import HistoryAwayError, HistoryError
from pytest_gsw.quoting import MASK, is_secret, quoted

if TYPE_CHECKING:
    import psycopg

#: A server that takes longer is away: a session must not wait for its history.
CONNECT_TIMEOUT_S = 10
#: A connection whose packets nobody acknowledges for so long is lost.
_SILENCE_MS = 30_000
_STATEMENT_TIMEOUT_MS = 60_000

#: Any number that no other program is likely to lock: "gsw" in ASCII.
_SCHEMA_LOCK = 0x677377

# What libpq takes, less what may be read in more than one way: an "@" or "/" in a password that is not written
# as %40 or %2F makes libpq take the rest of the password for the server's name, and messages name servers.
_LETTERS = r"[A-Za-z0-9._~!$&'()*+,;=%-]*"
_URL = re.compile(
    rf"(?P<scheme>postgres(?:ql)?)://(?:(?P<user>{_LETTERS})(?::(?P<password>{_LETTERS}))?@)?"
    r"(?P<hosts>[A-Za-z0-9._~%:,\[\]-]*)(?P<name>/[^/?#@\s]*)?(?P<options>\?[a-z_]+=[^?#@&\s]*(?:&[a-z_]+=[^?#@&\s]*)*)?"
)


def is_postgresql(where: str) -> bool:
    """Whether a history is named by a URL of PostgreSQL."""
    return re.match(r"postgres(?:ql)?:", where, re.IGNORECASE) is not None


def shown_url(url: str) -> str:
    """A URL without its secrets.

    Raises:
        ConfigurationError: Nobody can tell what in it is secret.
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
    asked = f"?{'&'.join(options)}" if options else ""
    return f"{match['scheme']}://{place}{match['hosts']}{match['name'] or ''}{asked}"


class PostgresqlDatabase:
    """A PostgreSQL database.

    Args:
        url: ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``.

    Raises:
        ConfigurationError: psycopg is not installed, or the URL is none.
    """

    key_sql = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    bytes_sql = "BYTEA"

    def __init__(self, url: str) -> None:
        self.shown = self.place = shown_url(url)
        self._secrets = _secrets(url)
        try:
            import psycopg
        except ImportError:
            raise ConfigurationError(
                f"the history {self.shown} needs psycopg, which is not installed\n"
                "next: pip install 'pytest-gsw[postgresql]'"
            ) from None
        self._psycopg = psycopg
        self._url = url
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @contextlib.contextmanager
    def transaction(self, *, write: bool) -> Iterator[None]:
        """One transaction: all of what is done in it, or nothing."""
        self._begin("BEGIN" if write else "BEGIN READ ONLY")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._connection is not None:  # a connection that is lost has rolled back
                with contextlib.suppress(HistoryError):
                    self.execute("ROLLBACK")
            raise

    def wait_for_schema(self) -> None:
        """Wait, within a transaction that writes, until nobody else changes the schema."""
        self.execute("SET LOCAL statement_timeout = 0")  # an index over a million points takes its time
        self.execute("SELECT pg_advisory_xact_lock(?)", (_SCHEMA_LOCK,))

    def has_table(self, name: str) -> bool:
        """Whether there is such a table."""
        # Not to_regclass(): it opens no table, and so does not see what another session has made meanwhile.
        return bool(self.execute("SELECT 1 FROM pg_class WHERE relname = ? AND pg_table_is_visible(oid)", (name,)))

    def execute(self, sql: str, values: Values = ()) -> Rows:
        """The rows of one statement."""
        with self._said():
            cursor = self._connected().execute(_own(sql), values)
            return cursor.fetchall() if cursor.description else []

    def execute_many(self, sql: str, many: Sequence[Values]) -> None:
        """One statement for many values, where nothing comes back."""
        with self._said(), self._connected().cursor() as cursor:
            cursor.executemany(_own(sql), many)

    def execute_each(self, sql: str, many: Sequence[Values]) -> list[Rows]:
        """The rows of one query for each of many values, in their order."""
        if not many:
            return []
        with self._said(), self._connected().cursor() as cursor:
            # psycopg sends them all before it waits for the first answer.
            cursor.executemany(_own(sql), many, returning=True)
            found = [cursor.fetchall()]
            while cursor.nextset():
                found.append(cursor.fetchall())
            return found

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _begin(self, sql: str) -> None:
        """Begin a transaction, on a new connection if the server has ended the one that there was."""
        if self._connection is not None:
            with contextlib.suppress(HistoryAwayError):
                self.execute(sql)
                return
        self.execute(sql)

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = self._psycopg.connect(
                self._url,
                autocommit=True,
                application_name="pytest-gsw",
                connect_timeout=None if "connect_timeout=" in self._url else CONNECT_TIMEOUT_S,
                tcp_user_timeout=_SILENCE_MS,
            )
            self._connection.execute(_own(f"SET statement_timeout = {_STATEMENT_TIMEOUT_MS}"))
        return self._connection

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Errors of psycopg in the words of a history, on one line and without a password."""
        try:
            yield
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            with contextlib.suppress(Exception):  # whatever is wrong with it, the next question has another one
                self.close()
            raise HistoryAwayError(f"the history {self.shown} does not answer: {self._safe(error)}") from None
        except self._psycopg.Error as error:
            raise HistoryError(f"the history {self.shown} refused: {self._safe(error)}") from None

    def _safe(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return quoted(text)


def _secrets(url: str) -> tuple[str, ...]:
    """What of a URL no message may have, as it is written there and as it is meant; the longest first."""
    match = _URL.fullmatch(url)
    assert match is not None  # its shown form was made
    options = (option.partition("=") for option in (match["options"] or "?")[1:].split("&"))
    written = {match["password"] or "", *(value for name, _, value in options if is_secret(name))}
    return tuple(sorted({*written, *map(unquote, written)} - {""}, key=len, reverse=True))


def _own(sql: str) -> Any:
    """SQL as psycopg takes it. It asks for literals, so that nobody puts values into SQL; there are none in ours."""
    return sql.replace("?", "%s")
