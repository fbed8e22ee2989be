"""Rows in the reports that pytest and its plugins write: JUnit, Allure, pytest-html."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from platform import python_version
from typing import Any, Literal

import pytest

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import percent
from pytest_gsw.results import junit, manifest
from pytest_gsw.results.record import NO_CLUSTER, Record
from pytest_gsw.session import failure_text, pytest_private
from pytest_gsw.session.collect import BaselineItem, BlankItem
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.state import SESSION
from pytest_gsw.tables.metrics import MFU, STEP_TIME

# -- Test cases of a session's rows, and the manifest in the run's directory ------------------------


#: The cluster's name of rows that are skipped because none is given.
_NOWHERE = "none"


def name_case(item: pytest.Item, report: pytest.TestReport) -> None:
    """Name the test case in the report of a row, with or without a record."""
    report.gsw_junit = class_of_item(item), item.name  # type: ignore[attr-defined]


def note_rows(settings: Settings, items: Iterable[pytest.Item], left_out: Mapping[str, str] | None = None) -> None:
    """Write the run's manifest, for a JUnit file that is rebuilt from its records.

    ``left_out`` are rows that are skipped while the session runs, by node id, with the reason.

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
    noted = manifest.RunManifest(cluster_of(settings), release, versions, errors, replayed, known, left_out or {})
    manifest.write_noted(settings.run_directory, redact(noted, os.environ))


def _facts_of(item: BaselineItem | BlankItem) -> dict[str, str]:
    """The facts of a row, for metrics and the report if it has no record."""
    if isinstance(item, BaselineItem):
        return manifest.facts_of(item.baseline)
    known = item.blank.known
    model, size = known.get("model") or "", known.get("size")
    return {"framework": known.get("framework") or "", "workload": f"{model}_{size}" if size else model}


def class_of_item(item: pytest.Item) -> str:
    """The class name of a row that has no record yet."""
    settings = item.config.stash[SESSION].settings
    if not isinstance(item, BaselineItem | BlankItem):
        return manifest.read_noted(settings.run_directory).class_of(item.nodeid)
    facts = _facts_of(item)
    return manifest.class_name(cluster_of(settings), facts["framework"], facts["workload"])


def cluster_of(settings: Settings) -> str:
    """The cluster in the class names of test cases."""
    if settings.cluster is not None:
        return settings.cluster.name
    return NO_CLUSTER if settings.judges else _NOWHERE


def properties_of_session(config: pytest.Config) -> list[tuple[str, str]]:
    """The properties of the session's suite."""
    state = config.stash[SESSION]
    noted = manifest.read_noted(state.settings.run_directory)
    found = manifest.suite_properties(noted, state.settings.run_id, state.run_records())
    if state.history is not None and (slow := state.history.known_slow):
        from pytest_gsw.history.comparison import suspect_text

        found.append(("gsw_slow_nodes", "; ".join(map(suspect_text, slow))))
    return redact(found, os.environ)


def case_reports(
    node_id: str,
    outcome: Literal["passed", "failed", "skipped"],
    shown: Any,
    properties: Iterable[tuple[str, object]],
    *,
    when: Literal["setup", "call"] = "call",
    took_s: float = 0.0,
    **more: Any,
) -> Iterator[pytest.TestReport]:
    """The reports of a test case without an item; pytest's JUnit takes properties from that of a teardown."""
    location = (node_id, None, node_id)
    yield pytest.TestReport(node_id, location, {}, outcome, shown, when, duration=took_s, **more)
    yield pytest.TestReport(node_id, location, {}, "passed", None, "teardown", user_properties=properties)


def reports_of_case(case: manifest.CaseBesideRows) -> Iterator[pytest.TestReport]:
    """The reports of a test case that is of no row."""
    shown: Any = case.text or case.fact
    if case.outcome == "failed":
        shown = failure_text.failure_of(shown, case.node_id)
    elif case.outcome == "skipped":
        shown = (case.node_id, None, shown)
    return case_reports(case.node_id, case.outcome, shown, [(case.property_name, case.fact)])


# -- A row's figures in the reports of allure-pytest and pytest-html, if a session writes one -------


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
        self._allure: Any = import_module("allure")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Name the row: Allure drops what is in brackets, and takes rows of a table for one test."""
        if not isinstance(item, BaselineItem | BlankItem):
            return
        show, parts = self._allure.dynamic, class_of_item(item).split(".")
        show.parameter("row", item.name, excluded=False)
        show.parameter("cluster", parts[0], excluded=False)
        # The labels by which Allure groups test cases: cluster, framework and workload.
        for group, part in zip((show.parent_suite, show.suite, show.sub_suite), parts, strict=True):
            group(part)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Make a row that could not be measured broken: Allure takes a failure of its set-up for one of the test."""
        report = yield
        if report.when == "setup" and report.outcome == "failed" and isinstance(item, BaselineItem | BlankItem):
            pytest_private.break_case(self._config)
        return report

    def pytest_gsw_run_recorded(self, record: Record) -> None:
        """Show the figures of a row, which must not distinguish one run's test from another's; attach its record."""
        for name, value in junit.properties(record):
            if name not in {"gsw_row", "gsw_cluster"}:
                self._allure.dynamic.parameter(name, value, excluded=True)
        self._allure.attach(record.text, "record", self._allure.attachment_type.JSON)


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
