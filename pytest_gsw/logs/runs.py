"""The runs in one log, which a whole log and one that grows are fed to alike."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace

from pytest_gsw.logs.guards import parser_of
from pytest_gsw.logs.model import Dialect, Diverged, LogFormat, StepLog, Tail
from pytest_gsw.logs.recipe_lines import RECIPE_MARKER, RecipeLines, recipe_line
from pytest_gsw.logs.scan import alternatives, is_wanted


class Runs:
    """The runs in a file, told apart by the lines in which they say whose they are.

    A requeued job that goes on from a checkpoint counts its steps on: nothing but such a line behind a step tells
    its steps from those of the run before. All ranks print one when a run begins, so that only a step between two
    of them parts two runs. Every format is so treated alike; its parser is fed one run alone.
    """

    def __init__(self, log_format: LogFormat, dialect: Dialect) -> None:
        self._format = log_format
        self._wanted = alternatives(dialect)
        self._parser = parser_of(log_format)
        #: Attempts in the runs before the last one, and those of them that diverged.
        self._attempts_before = 0
        self._diverged: tuple[Diverged, ...] = ()
        #: Where the last run begins, behind the first byte of its first line; 0 for the beginning of the file.
        self.begin = 0
        #: What the recipe's own lines say of the last run.
        self.lines = RecipeLines()

    def feed(self, offset: int, record: bytes) -> None:
        """Take the next record that holds a string of the dialect, or the recipe's marker."""
        if is_wanted(record, self._wanted):
            self._parser.feed(offset, record)
        # The line itself is of the run before it: a bar that was killed may stand in it.
        if RECIPE_MARKER in record and (line := recipe_line(record)) is not None:
            if self._parser.tail(1).attempts:
                self._end(offset + 1)
            self.lines.feed(offset, line)

    def _end(self, begin: int) -> None:
        """Leave the steps so far to the run before the one that begins here."""
        log = self.log()
        self._attempts_before, self._diverged = log.attempts, log.diverged
        if log.not_finite is not None:
            self._diverged += (Diverged(log.attempts, *log.not_finite, self.begin, begin),)
        self._parser, self.begin, self.lines = parser_of(self._format), begin, RecipeLines()

    @property
    def is_unstepped(self) -> bool:
        """Whether a run has begun since the last one that has a step."""
        return self._attempts_before > 0 and not self._parser.tail(1).attempts

    def log(self) -> StepLog:
        """The last run in the file; its attempts, and those that diverged, are counted from the file's beginning."""
        log, before = self._parser.log(), self._attempts_before
        own = (replace(one, attempt=one.attempt + before) for one in log.diverged)
        return replace(
            log,
            attempts=before + log.attempts,
            diverged=(*self._diverged, *own),
            begin=self.begin,
            contradiction=self.lines.contradiction,
        )

    def tail(self, count: int) -> Tail:
        """The end of :meth:`log`, with so many steps at most."""
        tail = self._parser.tail(count)
        return replace(tail, attempts=self._attempts_before + tail.attempts)

    def fork(self) -> Runs:
        """The same, to be fed what may turn out otherwise."""
        other = copy(self)
        other._parser = deepcopy(self._parser, {id(self._format): self._format})  # noqa: SLF001
        other.lines = copy(self.lines)
        return other
