"""A row's figures in the reports of allure-pytest and pytest-html, where a session writes one.

Neither is imported: what they offer is asked of the plugins that they have registered.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_gsw.common.words import percent
from pytest_gsw.results import junit
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import shown_by
from pytest_gsw.session.item import BaselineItem, BlankItem
from pytest_gsw.session.junit_cases import class_of_item
from pytest_gsw.tables.metrics import MFU, STEP_TIME

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
        """Show the figures of a row, which must not tell one night's test from another's, and attach its record."""
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
