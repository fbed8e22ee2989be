"""A row as pytest sees it; what judges it is imported where it is run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.results.outcomes import ERROR
from pytest_gsw.session.markers import MarkedItem, blank_markers
from pytest_gsw.session.selection import OfTheSession
from pytest_gsw.session.stash import SETTINGS
from pytest_gsw.session.telling import TellsFact, fail
from pytest_gsw.tables.model import Baseline, BlankRow

if TYPE_CHECKING:
    from pytest_gsw.errors import RunError
    from pytest_gsw.session.row import SessionRow


class BaselineItem(TellsFact, OfTheSession, MarkedItem):
    """One documented row."""

    def __init__(self, *, baseline: Baseline, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.baseline = baseline

    @cached_property
    def row(self) -> SessionRow:
        """What becomes of the row in this session."""
        from pytest_gsw.session.row import SessionRow

        return SessionRow(self, self.baseline)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Where the row is written."""
        # The blank keeps pytest from taking the name for that of a Python function, whose dots it
        # would print as "::", so that llama3.1_405b had a node id on the screen that does not exist.
        return self.path, self.baseline.location.line - 1, f"{self.name} "

    def setup(self) -> None:
        """Wait for the job, measure its log, and judge."""
        self.row.set_up()

    def runtest(self) -> None:
        """Tell what the set-up has found."""
        self.row.tell()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A report's text; a traceback shows arguments, and those may be the environment."""
        shown = super().repr_failure(excinfo, style)
        return shown if isinstance(excinfo.value, pytest.fail.Exception) else quoted(str(shown), os.environ)


class BlankItem(TellsFact, OfTheSession, pytest.Item):
    """A row that cannot run, because something of it is blank: an error that says what to write where."""

    def __init__(self, *, blank: BlankRow, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.blank = blank
        for marker in blank_markers(blank, self.config.stash[SETTINGS]):
            self.add_marker(marker)

    @cached_property
    def error(self) -> RunError:
        """What is told in the place of a result."""
        from pytest_gsw.tables.blanks import blank_error

        return quoted(blank_error(self.blank), os.environ)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Where the row is written."""
        return self.path, self.blank.location.line - 1, f"{self.name} "

    def setup(self) -> NoReturn:
        """Say what is blank; JUnit gets it as of a row that has no record."""
        facts = {"gsw_row": self.name, "gsw_outcome": ERROR.word, "gsw_fact": self.error.fact}
        self.user_properties.extend(facts.items())
        fail(str(self.error))

    def runtest(self) -> None:
        """Nothing can be run."""


def blank_rows(items: Iterable[pytest.Item]) -> list[BlankItem]:
    """The rows with blanks that the session is about: neither cluster nor options leave them out."""
    # isinstance asks the metaclass of each of ten thousand rows.
    return [item for item in items if type(item) is BlankItem and item.get_closest_marker("skip") is None]
