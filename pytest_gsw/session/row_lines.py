"""Each row's own line on the screen, in the place of pytest's, which has a path in front and no figures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterable
from typing import Any

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.results import outcomes
from pytest_gsw.results.incident import OF_CLUSTER
from pytest_gsw.results.row_line import MOST_FOR_IDS, WIDEST, RowLine, line_of
from pytest_gsw.session.node_ids import row_of
from pytest_gsw.session.stash import FINISHED
from pytest_gsw.session.telling import TellsFact

#: What an outcome's word is written in.
_COLOURS = {"passed": "green", "failed": "red", "error": "red"}


def line_of_report(report: Any) -> RowLine:
    """A row's line by its report, which may have no record."""
    row = row_of(report.nodeid)
    if report.nodeid.startswith(OF_CLUSTER):
        fact = str(report.longrepr).partition("\n")[0]
        return RowLine(f"cluster {row}", "INCIDENT", (fact.removeprefix(f"cluster {row}: "),))
    record = getattr(report, "gsw_record", None)
    line = RowLine(row, "", ()) if record is None else line_of(record, report.gsw_said)
    if report.outcome == "skipped" and not line.word:
        return RowLine(row, "SKIPPED", (_reason(report),))
    if report.outcome == "failed" and line.word not in _FAILING:
        kind = outcomes.ERROR.shown if report.when == "setup" else "FAILED"
        return RowLine(row, kind, (str(report.longrepr).partition("\n")[0],))
    return RowLine(row, line.word or report.outcome.upper(), line.parts)


#: Words of outcomes that a report which has failed may have: with ``gsw_strict`` also those that are too fast.
_FAILING = {
    one.shown for one in outcomes.OUTCOMES if one.pytest in {"failed", "error"} or one.word in outcomes.JUDGED
} - {outcomes.PASSED.shown}


def _reason(report: Any) -> str:
    """Why a row was skipped."""
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail)
    shown = report.longrepr
    reason = str(shown[2] if isinstance(shown, tuple) else shown).removeprefix("Skipped: ")
    return reason.partition("\n")[0]


class _Written:
    """Stands for whatever pytest is about to write in front of an item's outcome: as if it were there already."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class RowLines:
    """Writes a line for each row as soon as it is reported; other tests are pytest's."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._session: pytest.Session | None = None
        self._reported: set[str] = set()
        self._rows: frozenset[str] = frozenset()
        #: How many columns their ids have.
        self._columns = 0

    @property
    def _reporter(self) -> pytest.TerminalReporter | None:
        reporter: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return reporter

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Know the session, whose number of tests is what percentages are of."""
        self._session = session

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Know the rows."""
        self._session = session
        self._know(item.nodeid for item in session.items if isinstance(item, TellsFact))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> Generator[None, object, object]:
        """Keep pytest from writing a row's node id: its line has the id."""
        reporter = self._reporter
        if reporter is None or not self._is_row(nodeid):
            return (yield)
        before = reporter.currentfspath
        reporter.currentfspath = _Written()  # type: ignore[assignment]
        try:
            return (yield)
        finally:
            reporter.currentfspath = before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """Keep pytest from writing the outcome of a row that has its line; it is counted all the same."""
        status = yield
        # pytest's short summary asks for the bare word, once all is over.
        if self._has_line(report) and not self._config.stash.get(FINISHED, False):
            return status[0], "", ""
        return status

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write the line of a row."""
        if report.when == "call" or report.outcome != "passed":
            self._reported.add(report.nodeid)
        reporter = self._reporter
        if reporter is None or not self._has_line(report):
            return
        line: RowLine = quoted(line_of_report(report), os.environ)
        progress = self._progress()
        widest = line_width(reporter) - len(progress)
        name, word, rest = line.texts(widest, self._columns)
        reporter.ensure_newline()
        reporter.write(name)
        reporter.write(word, **{self._colour(report): True})
        reporter.write(rest.ljust(max(0, widest - len(name) - len(word))) if progress else rest)
        reporter.write(progress, cyan=True)
        reporter.currentfspath = -2  # as pytest says that a line is not ended yet
        reporter.flush()

    def _has_line(self, report: Any) -> bool:
        """Whether a report is the one of a row that has its line."""
        decides = report.when == "call" or (report.when == "setup" and report.outcome != "passed")
        is_known = report.outcome in {"passed", "failed", "skipped"}  # not what another plugin makes of one
        one_a_line = self._config.get_verbosity(pytest.Config.VERBOSITY_TEST_CASES) > 0
        return (
            decides
            and is_known
            and one_a_line
            and (self._is_row(report.nodeid) or report.nodeid.startswith(OF_CLUSTER))
        )

    def _is_row(self, node_id: str) -> bool:
        return node_id in self._rows

    def _know(self, node_ids: Iterable[str]) -> None:
        self._rows = frozenset(node_ids)
        lengths = (len(row_of(node_id)) for node_id in self._rows)
        self._columns = max((length for length in lengths if length <= MOST_FOR_IDS), default=0)

    def _progress(self) -> str:
        """How much of the session is reported, as pytest's option for it says; empty where it shows nothing."""
        total = 0 if self._session is None else self._session.testscollected
        style = self._config.getini("console_output_style")
        shows_output = self._config.getoption("capture") == "no" and style != "progress-even-when-capture-no"
        if not total or shows_output:
            return ""
        if style == "count":
            return f" [{len(self._reported):{len(str(total))}d}/{total}]"
        return f" [{len(self._reported) * 100 // total:3d}%]" if style.startswith("progress") else ""

    @staticmethod
    def _colour(report: Any) -> str:
        return _COLOURS.get(report.outcome, "yellow")


def line_width(reporter: pytest.TerminalReporter) -> int:
    """How long a line may be: never longer than a terminal is wide, nor than logs are read in."""
    return min(WIDEST, shutil.get_terminal_size().columns - 1) if reporter.isatty else WIDEST
