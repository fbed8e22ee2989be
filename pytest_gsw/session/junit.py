"""Rows in the reports that pytest and its plugins write: JUnit, Allure, pytest-html."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from pytest_gsw.results.junit_names import RunManifest, class_name, class_of, read_noted, write_noted
from pytest_gsw.results.record import NO_CLUSTER, Record
from pytest_gsw.results.row_text import shown_by
from pytest_gsw.session.collect import BaselineItem, BlankItem
from pytest_gsw.session.resume import LostRow
from pytest_gsw.session.settings import SESSION_HISTORY, SETTINGS, Settings
from pytest_gsw.session.terminal import run_records
from pytest_gsw.tables.metrics import MFU, STEP_TIME
from pytest_gsw.tables.model import Baseline

# -- What JUnit is to say of a session's rows: their reports say it of each, and a file of the run of all of them


#: In the place of a cluster's name, where rows are skipped because none is given.
_NOWHERE = "none"


def add_case(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let the report of a row say which test case it is; one that has no record is one, too."""
    if not isinstance(item, BaselineItem | BlankItem | LostRow):
        return
    row = item.row if isinstance(item, BaselineItem) else None
    record = None if row is None else row.record
    if record is None:
        case = (class_of_item(item), item.name, 0.0, "")
    else:
        message = "" if record.outcome == outcomes.PROFILED.word else record.fact
        case = (class_of(record), record.row.id, junit.run_seconds(record), message)
    report.gsw_junit = case  # type: ignore[attr-defined]


def note_rows(settings: Settings, items: Iterable[pytest.Item]) -> None:
    """Note beside the run's records what a JUnit file that is rebuilt of them needs.

    Raises:
        OSError: Nothing can be written there.
    """
    rows = [item for item in items if isinstance(item, BaselineItem | BlankItem)]
    versions = {"pytest-gsw": version("pytest-gsw"), "pytest": pytest.__version__, "python": python_version()}
    classes = {item.nodeid: class_of_item(item) for item in rows}
    release = "" if settings.release is None else settings.release
    errors = {item.nodeid: item.error.fact for item in rows if isinstance(item, BlankItem)}
    known = {item.nodeid: _row_of(item.baseline) for item in rows if isinstance(item, BaselineItem)}
    replay, replayed = settings.replay, ""
    if replay is not None:  # the run, or the place of the logs
        replayed = replay.resolve().name if (replay / "records").is_dir() else str(relative_path(replay))
    noted = RunManifest(cluster_of(settings), release, versions, classes, errors, replayed, known)
    write_noted(settings.run_directory, redact(noted, os.environ))


def _row_of(row: Baseline) -> dict[str, str]:
    """What a row is, as metrics and the report are to say of one without a record."""
    return {name: str(getattr(row, name)) for name in ("workload", "framework", "dtype", "accelerator", "gpus")}


def class_of_item(item: pytest.Item) -> str:
    """The class name of a row that has no record yet."""
    settings = item.config.stash[SETTINGS]
    cluster = cluster_of(settings)
    if isinstance(item, BaselineItem):
        return class_name(cluster, item.baseline.framework, item.baseline.workload)
    if isinstance(item, BlankItem):
        known = item.blank.known
        model, size = known.get("model") or "", known.get("size")
        return class_name(cluster, known.get("framework") or "", f"{model}_{size}" if size else model)
    return read_noted(settings.run_directory).class_of(item.nodeid)


def cluster_of(settings: Settings) -> str:
    """The cluster as the class names of test cases have it."""
    if settings.cluster is not None:
        return settings.cluster.name
    return NO_CLUSTER if settings.judges else _NOWHERE


# -- Rows in pytest's own JUnit file: their class names, the time of their jobs, and one fact as the message


#: The elements of a test case that have a message.
_TOLD = frozenset({"failure", "error", "skipped"})


class JunitCases:
    """Names rows in pytest's JUnit file as a rebuilt file does."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @cached_property
    def _xml(self) -> Any:
        """The writer of pytest, which has no name; ``None`` where there is none."""
        plugins = self._config.pluginmanager.get_plugins()
        needed = ("node_reporter", "add_global_property")
        return next((one for one in plugins if all(hasattr(one, name) for name in needed)), None)

    @contextmanager
    def naming(self, report: Any) -> Iterator[None]:
        """Name the test case of a report before it is written, and shorten its message once it is."""
        found = getattr(report, "gsw_junit", None)
        if found is None or self._xml is None:
            yield
            return
        class_name, name, took_s, message = found
        test = self._xml.node_reporter(report)
        prefix = f"{self._xml.prefix}." if self._xml.prefix else ""
        test.add_attribute("classname", f"{prefix}{class_name}")
        test.add_attribute("name", name)
        # What pytest is about to add is how long it took to judge the row.
        is_counted = self._xml.report_duration in {"total", report.when}
        test.duration = took_s - (report.duration if is_counted else 0.0)
        ordered = self._xml.node_reporters_ordered
        known = len(ordered)
        yield
        if report.when != "teardown":  # what fails then is nothing of the row's own
            for element in test.nodes:
                if element.tag in _TOLD and (message or element.tag != "skipped"):
                    element.set("message", _message(element.text or "", message) or element.get("message", ""))
        for reporter in ordered[known:]:  # the test case of a teardown alone, beside one that has failed already
            case = reporter.to_xml()
            case.set("classname", f"{prefix}{class_name}")
            case.set("name", name)

    def finish(self) -> None:
        """Add what ran where, before the file is written."""
        config = self._config
        if self._xml is None:
            return
        # A session that only collects rows comes here as well.
        from pytest_gsw.results.junit_names import read_noted, suite_properties

        settings = config.stash[SETTINGS]
        found = suite_properties(read_noted(settings.run_directory), settings.run_id, run_records(config))
        if SESSION_HISTORY in config.stash and (slow := config.stash[SESSION_HISTORY].known_slow):
            from pytest_gsw.history.comparison import suspect_text

            found.append(("gsw_slow_nodes", "; ".join(map(suspect_text, slow))))
        for name, value in redact(found, os.environ):
            self._xml.add_global_property(name, value)


def _message(text: str, fact: str) -> str:
    """One line of what an element says: the row's fact where that is what it is about; empty where it says nothing.

    What a hook raises, or why a row was to fail, is not about the fact: the row may be as fast as it is to be.
    """
    if fact and fact in text:
        return fact
    raised = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return raised[0] if raised else text.partition("\n")[0]


# -- A row's figures in the reports of allure-pytest and pytest-html, where a session writes one ----
#
# Neither is imported: what they offer is asked of the plugins that they have registered.


#: The labels by which Allure groups test cases: cluster, framework and workload.
_SUITES = ("parentSuite", "suite", "subSuite")
#: What stands above the columns of pytest-html, and the property of each.
_COLUMNS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "Throughput": ("gsw_throughput_change", percent),
    "Step time (s)": ("gsw_measured_step_time_s", shown_by(STEP_TIME)),
    "MFU": ("gsw_measured_mfu", shown_by(MFU)),
    "Job": ("gsw_job_id", str),
}
#: Behind which column of pytest-html they stand.
_BEHIND_TEST = 2


def add_reporters(config: pytest.Config) -> None:
    """Have the reports that this session writes show the figures of rows."""
    if getattr(config.option, "allure_report_dir", None):
        config.pluginmanager.register(_Allure(config), "gsw-allure")
    if getattr(config.option, "htmlpath", None):
        config.pluginmanager.register(_Html(), "gsw-html")


class _Allure:
    """Tells Allure which row a test case is, and its figures."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @property
    def _listener(self) -> Any:
        return self._config.pluginmanager.get_plugin("allure_listener")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Say which row it is: Allure leaves out what stands in brackets, and takes rows of a table for one test."""
        if self._listener is None or not isinstance(item, BaselineItem | BlankItem):
            return
        parts = class_of_item(item).split(".")
        self._listener.add_parameter("row", item.name, excluded=False, mode=None)
        self._listener.add_parameter("cluster", parts[0], excluded=False, mode=None)
        for label, part in zip(_SUITES, parts, strict=True):
            self._listener.add_label(label, (part,))

    def pytest_gsw_run_recorded(self, record: Record) -> None:
        """Show the figures of a row, which must not tell one run's test from another's, and attach its record."""
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
        """What stands above them."""
        cells[_BEHIND_TEST:_BEHIND_TEST] = [f"<th>{name}</th>" for name in _COLUMNS]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: list[str]) -> None:
        """The figures of a row; other tests have none."""
        found: Mapping[str, Any] = dict(getattr(report, "user_properties", ()))
        values = [show(found[name]) if name in found else "" for name, show in _COLUMNS.values()]
        cells[_BEHIND_TEST:_BEHIND_TEST] = [f"<td>{html.escape(value)}</td>" for value in values]
