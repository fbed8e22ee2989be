"""Rows in pytest's own JUnit file: their class names, the time of their jobs, and one fact as the message."""

from __future__ import annotations

import os
from collections.abc import Generator
from functools import cached_property
from typing import Any

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.session.stash import NIGHTS, SETTINGS
from pytest_gsw.session.tally import TALLY

#: The elements of a test case that have a message.
_TOLD = frozenset({"failure", "error", "skipped"})


class JunitCases:
    """Has pytest's writer of JUnit files call rows as a rebuilt file does; it is there where one is written."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @cached_property
    def _xml(self) -> Any:
        """The writer of pytest, which has no name; ``None`` where there is none."""
        plugins = self._config.pluginmanager.get_plugins()
        needed = ("node_reporter", "add_global_property")
        return next((one for one in plugins if all(hasattr(one, name) for name in needed)), None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> Generator[None, None, None]:
        """Name the test case before it is written, and shorten its message once it is."""
        found = getattr(report, "gsw_junit", None)
        if found is None or self._xml is None:
            return (yield)
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
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Tell what ran where, before the file is written."""
        config = self._config
        if self._xml is None or TALLY not in config.stash or not config.stash[TALLY].rows:
            return
        # A session that only collects rows comes here as well.
        from pytest_gsw.results.junit_names import read_noted, suite_properties
        from pytest_gsw.results.rebuild import read_run

        settings = config.stash[SETTINGS]
        directory = settings.run_directory
        records, _ = read_run(directory, config.stash[TALLY].records)
        found = suite_properties(read_noted(directory), settings.run_id, records)
        if NIGHTS in config.stash and (slow := config.stash[NIGHTS].known_slow):
            from pytest_gsw.history.texts import suspect_text

            found.append(("gsw_slow_nodes", "; ".join(map(suspect_text, slow))))
        for name, value in quoted(found, os.environ):
            self._xml.add_global_property(name, value)


def _message(text: str, fact: str) -> str:
    """One line of what an element says: the row's fact where that is what it is about; empty where it says nothing.

    What a hook raises, or why a row was to fail, is not about the fact: the row may be as fast as it is to be.
    """
    if fact and fact in text:
        return fact
    raised = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return raised[0] if raised else text.partition("\n")[0]
