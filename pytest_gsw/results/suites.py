"""The rows of a suite, as a hook names them, and what a session of them comes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import Baseline


class Concluded(NamedTuple):
    """What a session of a suite comes to."""

    #: What the terminal shows of it.
    lines: Sequence[str]
    is_met: bool
    #: Whether a row was measured, and has not reached what the suite asks for.
    is_missed: bool


class SuiteRows(Protocol):
    """The rows of ``--gsw-suite`` in a session."""

    def of_table(self, path: Path) -> Sequence[Baseline]:
        """The rows of one of the session's tables, in its order; none runs that is not among them."""

    def case_of(self, row: Baseline) -> str:
        """What the suite calls a row, for JUnit."""

    def told(self) -> Sequence[str]:
        """What is said of the suite before any row runs, a line each."""

    def conclude(self, records: Sequence[Record]) -> Concluded:
        """What the records of all rows that were run come to; a suite that is not met makes the session fail."""
