"""Rows in the reports that pytest and its plugins write: JUnit, Allure, pytest-html."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from platform import python_version
from typing import Any

import pytest

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import percent
from pytest_gsw.results import junit, outcomes
from pytest_gsw.results.manifest import RunManifest, class_name, class_of, facts_of, read_noted, write_noted
from pytest_gsw.results.record import NO_CLUSTER, Record
from pytest_gsw.session.collect import BaselineItem, BlankItem
from pytest_gsw.session.resume import LostRow
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.state import SESSION
from pytest_gsw.tables.metrics import MFU, STEP_TIME

# -- Test cases of a session's rows: names in their reports, and the manifest in the run's directory


#: The cluster's name of rows that are skipped because none is given.
_NOWHERE = "none"


def add_case(item: pytest.Item, report: pytest.TestReport) -> None:
    """Name the test case in the report of a row, with or without a record; that of its call follows a set-up."""
    if not isinstance(item, BaselineItem | BlankItem | LostRow) or (report.when == "setup" and report.passed):
        return
    row = item.config.stash[SESSION].rows.get(item.baseline.id) if isinstance(item, BaselineItem) else None
    record = None if row is None else row.record
    if record is None:
        case = (class_of_item(item), item.name, 0.0, "")
    else:
        message = "" if record.outcome == outcomes.PROFILED.word else record.fact
        case = (class_of(record), record.row.id, junit.run_seconds(record), message)
    report.gsw_junit = case  # type: ignore[attr-defined]


def note_rows(settings: Settings, items: Iterable[pytest.Item]) -> None:
    """Write the run's manifest, for a JUnit file that is rebuilt from its records.

    Raises:
        OSError: Nothing can be written there.
    """
    rows = [item for item in items if isinstance(item, BaselineItem | BlankItem)]
    versions = {"pytest-gsw": version("pytest-gsw"), "pytest": pytest.__version__, "python": python_version()}
    release = "" if settings.release is None else settings.release
    errors = {item.nodeid: item.error.fact for item in rows if isinstance(item, BlankItem)}
    known = {item.nodeid: _facts_of(item) for item in rows}
    replayed = ""
    if settings.replay is not None:  # the run, or the place of the logs
        replay = settings.replay.place
        replayed = replay.resolve().name if (replay / "records").is_dir() else str(relative_path(replay))
    noted = RunManifest(cluster_of(settings), release, versions, errors, replayed, known)
    write_noted(settings.run_directory, redact(noted, os.environ))


def _facts_of(item: BaselineItem | BlankItem) -> dict[str, str]:
    """The facts of a row, for metrics and the report if it has no record."""
    if isinstance(item, BaselineItem):
        return facts_of(item.baseline)
    known = item.blank.known
    model, size = known.get("model") or "", known.get("size")
    return {"framework": known.get("framework") or "", "workload": f"{model}_{size}" if size else model}


def class_of_item(item: pytest.Item) -> str:
    """The class name of a row that has no record yet."""
    settings = item.config.stash[SESSION].settings
    if not isinstance(item, BaselineItem | BlankItem):
        return read_noted(settings.run_directory).class_of(item.nodeid)
    facts = _facts_of(item)
    return class_name(cluster_of(settings), facts["framework"], facts["workload"])


def cluster_of(settings: Settings) -> str:
    """The cluster in the class names of test cases."""
    if settings.cluster is not None:
        return settings.cluster.name
    return NO_CLUSTER if settings.judges else _NOWHERE


# -- Rows in pytest's own JUnit file: their class names, the time of their jobs, and one fact as the message


#: The elements of a test case with a message.
_WITH_MESSAGE = frozenset({"failure", "error", "skipped"})


class JunitCases:
    """Names rows in pytest's JUnit file as a rebuilt file does."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @cached_property
    def _xml(self) -> Any:
        """The writer of pytest, which has no name; ``None`` if there is none."""
        plugins = self._config.pluginmanager.get_plugins()
        needed = ("node_reporter", "add_global_property")
        return next((one for one in plugins if all(hasattr(one, name) for name in needed)), None)

    @contextmanager
    def naming(self, report: Any) -> Iterator[None]:
        """Name the test case of a report before it is written, and shorten its message once it is."""
        if self._xml is None:
            yield
            return
        class_name, name, took_s, message = report.gsw_junit
        test = self._xml.node_reporter(report)
        prefix = f"{self._xml.prefix}." if self._xml.prefix else ""
        test.add_attribute("classname", f"{prefix}{class_name}")
        test.add_attribute("name", name)
        # pytest is about to add the time for which the row was judged.
        is_counted = self._xml.report_duration in {"total", report.when}
        test.duration = took_s - (report.duration if is_counted else 0.0)
        ordered = self._xml.node_reporters_ordered
        known = len(ordered)
        yield
        if report.when != "teardown":  # a failure then is not the row's own
            for element in test.nodes:
                if element.tag in _WITH_MESSAGE and (message or element.tag != "skipped"):
                    element.set("message", _message(element.text or "", message) or element.get("message", ""))
        for reporter in ordered[known:]:  # the test case of a teardown, added to one that has failed already
            case = reporter.to_xml()
            case.set("classname", f"{prefix}{class_name}")
            case.set("name", name)

    def finish(self) -> None:
        """Add the properties of the suite, before the file is written."""
        config = self._config
        if self._xml is None:
            return
        # A session that only collects rows comes here as well.
        from pytest_gsw.results.manifest import read_noted, suite_properties

        state = config.stash[SESSION]
        noted = read_noted(state.settings.run_directory)
        found = suite_properties(noted, state.settings.run_id, state.run_records())
        if state.history is not None and (slow := state.history.known_slow):
            from pytest_gsw.history.comparison import suspect_text

            found.append(("gsw_slow_nodes", "; ".join(map(suspect_text, slow))))
        for name, value in redact(found, os.environ):
            self._xml.add_global_property(name, value)


def _message(text: str, fact: str) -> str:
    """One line of an element's text: the row's fact if the text has it; empty for an empty text.

    An error of a hook, or the reason for an expected failure, is not about the fact: the row itself may be fast enough.
    """
    if fact and fact in text:
        return fact
    raised = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return raised[0] if raised else text.partition("\n")[0]


# -- A row's figures in the reports of allure-pytest and pytest-html, if a session writes one -------
#
# Neither is imported: their registered plugins are used.


#: The labels by which Allure groups test cases: cluster, framework and workload.
_SUITES = ("parentSuite", "suite", "subSuite")
#: The headings of pytest-html's columns, and the property and format of each.
_COLUMNS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "Throughput": ("gsw_throughput_change", percent),
    "Step time (s)": ("gsw_measured_step_time_s", STEP_TIME.in_table),
    "MFU": ("gsw_measured_mfu", MFU.in_table),
    "Job": ("gsw_job_id", str),
}
#: The place of these columns: after the one of the test.
_BEHIND_TEST = 2


def add_reporters(config: pytest.Config) -> None:
    """Add the figures of rows to the reports that this session writes."""
    if getattr(config.option, "allure_report_dir", None):
        config.pluginmanager.register(_Allure(config), "gsw-allure")
    if getattr(config.option, "htmlpath", None):
        config.pluginmanager.register(_Html(), "gsw-html")


class _Allure:
    """Names rows in Allure's report, with their figures."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @property
    def _listener(self) -> Any:
        return self._config.pluginmanager.get_plugin("allure_listener")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Name the row: Allure drops what is in brackets, and takes rows of a table for one test."""
        if self._listener is None or not isinstance(item, BaselineItem | BlankItem):
            return
        parts = class_of_item(item).split(".")
        self._listener.add_parameter("row", item.name, excluded=False, mode=None)
        self._listener.add_parameter("cluster", parts[0], excluded=False, mode=None)
        for label, part in zip(_SUITES, parts, strict=True):
            self._listener.add_label(label, (part,))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Make a row that could not be measured broken: Allure takes a failure of its set-up for one of the test."""
        report = yield
        is_error = report.when == "setup" and report.outcome == "failed" and isinstance(item, BaselineItem | BlankItem)
        if is_error and self._listener is not None:
            self._listener.allure_logger.get_test(None).status = "broken"
        return report

    def pytest_gsw_run_recorded(self, record: Record) -> None:
        """Show the figures of a row, which must not distinguish one run's test from another's; attach its record."""
        if self._listener is None:
            return
        for name, value in junit.properties(record):
            if name not in {"gsw_row", "gsw_cluster"}:
                self._listener.add_parameter(name, value, excluded=True, mode=None)
        self._listener.attach_data(record.text, "record", "application/json", "json")


class _Html:
    """Columns of pytest-html for the figures of rows."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Add the headings."""
        cells[_BEHIND_TEST:_BEHIND_TEST] = [f"<th>{name}</th>" for name in _COLUMNS]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: list[str]) -> None:
        """Add the figures of a row; other tests have none."""
        found: Mapping[str, Any] = dict(getattr(report, "user_properties", ()))
        values = [show(found[name]) if name in found else "" for name, show in _COLUMNS.values()]
        cells[_BEHIND_TEST:_BEHIND_TEST] = [f"<td>{html.escape(value)}</td>" for value in values]
