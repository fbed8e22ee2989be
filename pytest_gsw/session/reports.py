"""The receiver of pytest's reports of rows: it counts them, shows each as a line, and names them in JUnit."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from pytest_gsw.common.redact import redact
from pytest_gsw.results.row_line import MOST_FOR_IDS, RowLine
from pytest_gsw.results.suggested_commands import is_interrupted
from pytest_gsw.session import node_ids, options, pytest_private, screen, terminal
from pytest_gsw.session.collect import RERUNS, BaselineItem, BlankItem
from pytest_gsw.session.failure_text import OneLineFailure
from pytest_gsw.session.outcome_counts import OutcomeCounts
from pytest_gsw.session.state import SESSION

#: The most interrupted rows with lines of their own.
_MOST_INTERRUPTED = 3


def _is_interrupted(report: Any) -> bool:
    """True if a report is the error of an interrupted row."""
    record = getattr(report, "gsw_record", None)
    return report.failed and record is not None and is_interrupted(record)


class Reports:
    """The only receiver of a session's reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tally = OutcomeCounts(profiled_on_purpose=options.is_typed(config, "profile"))
        config.stash[SESSION].counts = self._tally
        self._tests = 0
        self._interrupted = 0
        #: The report that pytest shows at the moment.
        self._current: Any = None
        #: The rows that the session judges, and the width of their ids.
        self._rows: set[str] = set()
        self._columns = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Leave out the path before a row: its line has the id."""
        reporter = screen.terminal_reporter(self._config)
        if reporter is not None:
            reporter.showfspath = False if nodeid in self._rows else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> Generator[None, Any, Any]:
        """Show a row by its line instead of a letter, with -v instead of a word; the first few if it is interrupted.

        pytest's short summary needs the bare word, after all rows have run.
        """
        category, letter, word = yield
        if self._current is not report or not self._has_line(report):
            return category, letter, word
        if _is_interrupted(report) and self._interrupted > _MOST_INTERRUPTED:
            return "interrupted", "", ""
        line: RowLine = redact(terminal.line_of_report(report, word), os.environ)
        if self._verbosity >= 0:
            letter = self._full_line(line)
            # pytest adds the reason of what is skipped.
            word = line.word if report.skipped else "  ".join((line.word, *line.parts))
        return category, letter, (word, {"yellow": True}) if report.passed and hasattr(report, "gsw_case") else word

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the rows of the session."""
        self._tests = session.testscollected
        if self._config.stash[SESSION].settings.judges:
            self._rows = {item.nodeid for item in session.items if isinstance(item, OneLineFailure)}
        lengths = (len(node_ids.row_of(node_id)) for node_id in self._rows)
        self._columns = max((length for length in lengths if length <= MOST_FOR_IDS), default=0)

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run rows with pytest's own runner instead of pytest-rerunfailures, which would judge the same job once more.

        This plugin is registered later, and therefore called before that one; a conftest.py may still come first.
        """
        if self._rows and isinstance(item, OneLineFailure):
            self._rows.add(item.nodeid)  # a stage has added it
        manager = self._config.pluginmanager
        if not self._rows or not manager.has_plugin(RERUNS) or not isinstance(item, (BaselineItem, BlankItem)):
            return None
        runner = manager.get_plugin("runner")
        assert runner is not None  # it is pytest's own
        done: bool = runner.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return done

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> Generator[None, None, None]:
        """Count a report, begin the line of its row, and name its test case in JUnit."""
        self._tally.add(report)
        self._interrupted += _is_interrupted(report)
        self._current = report
        if self._verbosity == 0 and self._has_line(report):
            screen.end_line(self._config)
        xml = pytest_private.junit_of(self._config)
        if xml is not None and hasattr(report, "gsw_junit"):
            pytest_private.log_case(xml, report, *report.gsw_junit)
        yield
        self._current = None

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
        if self._verbosity == 0:
            screen.end_line(self._config)
        xml = pytest_private.junit_of(self._config)
        if xml is not None:
            from pytest_gsw.session.junit_file import properties_of_session

            for name, value in properties_of_session(self._config):
                xml.add_global_property(name, value)

    @property
    def _verbosity(self) -> int:
        return self._config.get_verbosity(pytest.Config.VERBOSITY_TEST_CASES)

    def _full_line(self, line: RowLine) -> str:
        """A row's line, with blanks up to the column in which pytest writes its progress and ends the line."""
        reporter = screen.terminal_reporter(self._config)
        assert reporter is not None  # which asks for it
        progress = pytest_private.progress_width(reporter, self._tests)
        widest = terminal.line_width(reporter) - progress
        text = line.text(widest, self._columns)
        if not progress:
            return f"{text}\n"
        return text.ljust(max(widest, self._config.get_terminal_writer().fullwidth - progress - 1))

    def _has_line(self, report: Any) -> bool:
        """True if a report is shown as a row's line."""
        return (
            (report.when == "call" or report.outcome != "passed")
            and report.outcome in {"passed", "failed", "skipped"}  # not another plugin's outcome
            and (report.nodeid in self._rows or hasattr(report, "gsw_case"))
        )
