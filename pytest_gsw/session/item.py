"""A row as pytest sees it; what judges it is imported where it is run."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.session.markers import MarkedItem
from pytest_gsw.session.selection import OfTheSession
from pytest_gsw.tables.model import Baseline

if TYPE_CHECKING:
    from pytest_gsw.session.row import SessionRow


class BaselineItem(OfTheSession, MarkedItem):
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
