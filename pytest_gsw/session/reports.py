"""The receiver of pytest's reports of rows: it counts them, writes a line for each, and names them in JUnit."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plural
from pytest_gsw.results.row_text import MOST_FOR_IDS, RowLine
from pytest_gsw.results.suggested_commands import is_interrupted
from pytest_gsw.session.collect import RERUNS, BaselineItem, BlankItem
from pytest_gsw.session.failure_text import TellsFact
from pytest_gsw.session.node_ids import row_of
from pytest_gsw.session.options import is_typed
from pytest_gsw.session.outcome_counts import OutcomeCounts
from pytest_gsw.session.state import SESSION
from pytest_gsw.session.terminal import line_of_report, line_width

if TYPE_CHECKING:
    from pytest_gsw.session.junit_file import JunitCases

#: The most interrupted rows with lines of their own.
_MOST_INTERRUPTED = 3
#: The colours of outcomes.
_COLOURS = {"passed": "green", "failed": "red", "error": "red"}


def _is_interrupted(report: Any) -> bool:
    """True if a report is the error of an interrupted row."""
    record = getattr(report, "gsw_record", None)
    return report.failed and record is not None and is_interrupted(record)


class _Written:
    """Equal to anything: prevents pytest from writing a prefix before an item's outcome."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Reports:
    """The only receiver of a session's reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tally = OutcomeCounts(profiled_on_purpose=is_typed(config, "profile"))
        config.stash[SESSION].counts = self._tally
        self._junit: JunitCases | None = None
        if getattr(config.option, "xmlpath", None):
            from pytest_gsw.session.junit_file import JunitCases

            self._junit = JunitCases(config)
        self._session: pytest.Session | None = None
        self._reported: set[str] = set()
        self._interrupted = 0
        #: The rows that the session judges, and the width of their ids.
        self._rows: frozenset[str] = frozenset()
        self._columns = 0

    @property
    def _reporter(self) -> pytest.TerminalReporter | None:
        reporter: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return reporter

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> Generator[None, object, object]:
        """Suppress pytest's output of a row's node id: its line has the id."""
        reporter = self._reporter
        if reporter is None or nodeid not in self._rows:
            return (yield)
        before = reporter.currentfspath
        reporter.currentfspath = _Written()  # type: ignore[assignment]
        try:
            return (yield)
        finally:
            reporter.currentfspath = before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """Suppress pytest's output of a row's outcome if it has its line; it is still counted."""
        status = yield
        # pytest's short summary needs the bare word, after all rows have run.
        if self._has_line(report) and not self._config.stash[SESSION].is_finished:
            return status[0], "", ""
        return status

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the session, whose number of tests is the base of percentages, and its rows."""
        self._session = session
        if self._config.stash[SESSION].settings.judges:
            self._rows = frozenset(item.nodeid for item in session.items if isinstance(item, TellsFact))
        lengths = (len(row_of(node_id)) for node_id in self._rows)
        self._columns = max((length for length in lengths if length <= MOST_FOR_IDS), default=0)

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run rows with pytest's own runner instead of pytest-rerunfailures, which would judge the same job once more.

        This plugin is registered later, and therefore called before that one; a conftest.py may still come first.
        """
        manager = self._config.pluginmanager
        if not self._rows or not manager.has_plugin(RERUNS) or not isinstance(item, (BaselineItem, BlankItem)):
            return None
        runner = manager.get_plugin("runner")
        assert runner is not None  # it is pytest's own
        done: bool = runner.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return done

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> Generator[None, None, None]:
        """Count a report, write the line of its row, and name its test case in JUnit."""
        self._tally.add(report)
        self._interrupted += _is_interrupted(report)
        self._write_line(report)
        with self._junit.naming(report) if self._junit and hasattr(report, "gsw_junit") else nullcontext():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Report the cluster's state and the nodes before JUnit's file is written."""
        if self._tally.ran_nothing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        if not self._tally.rows:
            return
        from pytest_gsw.stats.cluster_effect import FEWEST_ROWS

        if self._tally.rows >= FEWEST_ROWS or self._config.stash[SESSION].sweep is not None:
            from pytest_gsw.session.session_report import report_cluster

            report_cluster(session)
        if self._junit is not None:
            self._junit.finish()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
        """Let pytest show the first few interrupted rows, and count the others, which have nothing else to tell."""
        errors = terminalreporter.stats.get("error", [])
        untold = set([id(report) for report in errors if _is_interrupted(report)][_MOST_INTERRUPTED:])
        if not untold:
            return (yield)
        from pytest_gsw.session.screen import write  # few sessions are interrupted

        write(self._config, f"gsw: {plural(len(untold), 'more row')} interrupted")
        terminalreporter.stats["error"] = [report for report in errors if id(report) not in untold]
        try:
            return (yield)
        finally:
            terminalreporter.stats["error"] = errors

    def _write_line(self, report: Any) -> None:
        """Write the line of a row as soon as it is reported; other tests are left to pytest."""
        if report.when == "call" or report.outcome != "passed":
            self._reported.add(report.nodeid)
        reporter = self._reporter
        is_untold = self._interrupted > _MOST_INTERRUPTED and _is_interrupted(report)
        if reporter is None or is_untold or not self._has_line(report):
            return
        line: RowLine = redact(line_of_report(report), os.environ)
        progress = self._progress()
        widest = line_width(reporter) - len(progress)
        name, word, rest = line.texts(widest, self._columns)
        reporter.ensure_newline()
        reporter.write(name)
        colour = "failed" if report.failed else "" if hasattr(report, "gsw_case") else report.outcome
        reporter.write(word, **{_COLOURS.get(colour, "yellow"): True})
        reporter.write(rest.ljust(max(0, widest - len(name) - len(word))) if progress else rest)
        reporter.write(progress, cyan=True)
        reporter.currentfspath = -2  # pytest's mark of an unfinished line
        reporter.flush()

    def _has_line(self, report: Any) -> bool:
        """True if a report is the one of a row that has its line."""
        return (
            (report.when == "call" or (report.when == "setup" and report.outcome != "passed"))
            and report.outcome in {"passed", "failed", "skipped"}  # not another plugin's outcome
            and (report.nodeid in self._rows or hasattr(report, "gsw_case"))
            and self._config.get_verbosity(pytest.Config.VERBOSITY_TEST_CASES) > 0
        )

    def _progress(self) -> str:
        """The share of reported items, in the style of pytest's option; empty if it shows none."""
        total = 0 if self._session is None else self._session.testscollected
        style = self._config.getini("console_output_style")
        shows_output = self._config.getoption("capture") == "no" and style != "progress-even-when-capture-no"
        if not total or shows_output:
            return ""
        if style == "count":
            return f" [{len(self._reported):{len(str(total))}d}/{total}]"
        return f" [{len(self._reported) * 100 // total:3d}%]" if style.startswith("progress") else ""
