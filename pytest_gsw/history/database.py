"""What a history asks of a database: little enough that one SQL serves both."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

#: What a row holds, and what is put in the place of a ``?``.
Values: TypeAlias = Sequence[Any]
Rows: TypeAlias = list[tuple[Any, ...]]


class Database(Protocol):
    """A database behind one connection, which is made when it is first needed and made again when it was lost.

    SQL is written with ``?`` for values, and has no other question or percent marks. Every method raises
    :class:`~pytest_gsw.history.errors.HistoryError`, :class:`~pytest_gsw.history.errors.HistoryAwayError` where
    trying again later may help.
    """

    #: Where it is, fit to be shown.
    shown: str
    #: Where it is, the same from every directory and without a password.
    place: str
    #: The SQL of a table's own whole-number key, and the type of bytes.
    key_sql: str
    bytes_sql: str

    def transaction(self, *, write: bool) -> AbstractContextManager[None]:
        """One transaction: all of what is done in it, or nothing."""

    def wait_for_schema(self) -> None:
        """Wait, within a transaction that writes, until nobody else changes the schema."""

    def has_table(self, name: str) -> bool:
        """Whether there is such a table."""

    def execute(self, sql: str, values: Values = ()) -> Rows:
        """The rows of one statement."""

    def execute_many(self, sql: str, many: Sequence[Values]) -> None:
        """One statement for many values, where nothing comes back."""

    def execute_each(self, sql: str, many: Sequence[Values]) -> list[Rows]:
        """The rows of one query for each of many values, in their order."""

    def close(self) -> None:
        """Let go of the connection."""
