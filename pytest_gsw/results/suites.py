"""The rows of a suite, as a hook names them, and the result of a session of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import Baseline


class Concluded(NamedTuple):
    """The result of a suite's session."""

    #: Its lines on the terminal.
    lines: Sequence[str]
    is_met: bool
    #: True if a measured row has not reached the suite's criterion.
    is_missed: bool


class SuiteRows(Protocol):
    """The rows of ``--gsw-suite`` in a session."""

    def of_table(self, path: Path) -> Sequence[Baseline]:
        """The rows of one of the session's tables, in its order; none runs that is not among them."""

    def case_of(self, row: Baseline) -> str:
        """The suite's name of a row, for JUnit."""

    def heading(self) -> Sequence[str]:
        """Lines about the suite before any row runs."""

    def conclude(self, records: Sequence[Record]) -> Concluded:
        """The result of all rows that were run; a suite that is not met makes the session fail."""
