"""The base of parsers that sort out by a series what the lines of a log tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pytest_gsw.logs.attempts import Series
from pytest_gsw.logs.model import Dialect, LastWords, StepLog, Tail


class SeriesParser:
    """A parser that leaves attempts, ranks and figures that are not finite to series.

    Args:
        name: The format's.
        series: Those that a log of the format may hold, the most exact first.
    """

    guards_itself: ClassVar[bool] = True

    def __init__(self, name: str, *series: Series) -> None:
        self._name = name
        self._candidates = series

    def feed(self, offset: int, record: bytes) -> None:
        """Take the next record. Overwrite this."""
        raise NotImplementedError

    def series(self) -> Series:
        """The series that counts by now: the first that has steps."""
        return next((series for series in self._candidates if series.attempts), self._candidates[-1])

    def not_finite(self, series: Series) -> tuple[int | None, str] | None:
        """Step number and text of what was not finite first in the last attempt of the series that counts."""
        return series.not_finite

    def log(self) -> StepLog:
        """What all records fed by now say."""
        series = self.series()
        return StepLog(
            format=self._name,
            steps=series.steps(),
            attempts=series.attempts,
            not_finite=self.not_finite(series),
            diverged=tuple(series.diverged),
            losses=series.losses,
            without_loss=series.without_loss,
            printed=series.printed,
        )

    def tail(self, count: int) -> Tail:
        """The end of :meth:`log`, at a cost that does not grow with the log."""
        series = self.series()
        return Tail(series.attempts, series.count, tuple(series.steps(count)), self.not_finite(series))


@dataclass(frozen=True)
class BuiltIn:
    """A format that came with pytest-gsw; the fields are those of :class:`~pytest_gsw.logs.model.LogFormat`."""

    name: str
    dialects: tuple[Dialect, ...]
    reader: Callable[[], SeriesParser]
    first_index: int | None = None
    wraps: bool = False
    shows_progress: bool = True
    last_words: LastWords | None = None
