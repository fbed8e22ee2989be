"""Parts of pytest and of its plugins that are not public, and have no public twin; no other module uses any.

Tried with pytest 8.3.5 and 9.2.0, pytest-xdist 3.8.0 and allure-pytest 2.16.2. If one of them changes,
tests/unit/session/test_pytest_private.py fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from _pytest.junitxml import LogXML, xml_key
from _pytest.mark import KeywordMatcher, MarkMatcher, _parse_expression

from pytest_gsw.tables.model import TILE

# -- JUnit: as record_xml_attribute and record_testsuite_property do, which only functions may use ---


def junit_of(config: pytest.Config) -> LogXML | None:
    """The writer of the session's JUnit file; ``None`` if it writes none."""
    return config.stash.get(xml_key, None)


def log_case(xml: LogXML, report: Any, class_name: str, name: str) -> None:
    """Name the test case of a report that is about to be written."""
    case = xml.node_reporter(report)
    case.add_attribute("classname", f"{xml.prefix}.{class_name}" if xml.prefix else class_name)
    case.add_attribute("name", name)


#: A test case: its class name, its name, and its reports.
JunitCase = tuple[str, str, Iterable[pytest.TestReport]]


def write_junit(path: Path, properties: Iterable[tuple[str, str]], cases: Iterable[JunitCase]) -> None:
    """Write the JUnit file of a session with these test cases."""
    xml = LogXML(path, prefix=None, family="xunit2")
    xml.pytest_sessionstart()
    for name, value in properties:
        xml.add_global_property(name, value)
    for class_name, name, reports in cases:
        for report in reports:
            log_case(xml, report, class_name, name)
            xml.pytest_runtest_logreport(report)
    xml.pytest_sessionfinish()


# -- Selection: the language of -k and of -m ---------------------------------------------------------


def check_expression(text: str) -> str:
    """An expression of ``-k`` or ``-m``, unchanged; a ValueError has its fault."""
    try:
        _parse_expression(text, "is no expression")
    except (pytest.UsageError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) if isinstance(error, pytest.UsageError) else "is nested too deeply") from None
    return text


def is_selected(item: pytest.Item, rows: str, marks: str) -> bool:
    """True if an item is selected by these expressions of ``-k`` and of ``-m``; an empty one selects all."""
    by_name = not rows or _parse_expression(rows, rows).evaluate(KeywordMatcher.from_item(item))
    return by_name and (
        not marks or _parse_expression(marks, marks).evaluate(MarkMatcher.from_markers(item.iter_markers()))
    )


# -- The screen --------------------------------------------------------------------------------------


def progress_width(reporter: pytest.TerminalReporter, tests: int) -> int:
    """The columns of pytest's progress at the end of a full line; 0 if it shows none."""
    style = reporter._show_progress_info  # noqa: SLF001
    widest = {"count": f" [{tests}/{tests}]", "times": " 99h 59m"}.get(str(style), " [100%]")
    return len(widest) if style else 0


def show_whole_id(report: Any) -> None:
    """Let pytest's short summary show the id of a tile: from 9.2 on it takes all after a bracket for parameters."""
    if TILE in report.nodeid and "_id" in vars(report):
        row = report.nodeid.partition("::")[2]
        vars(report)["_id"] = replace(vars(report)["_id"], names=(row,), params=None)


# -- Plugins -----------------------------------------------------------------------------------------


def turn_off_xdist(config: pytest.Config) -> bool:
    """Keep pytest-xdist from starting workers; true if it was about to."""
    if getattr(config.option, "dist", "no") == "no":
        return False
    config.option.dist, config.option.tx = "no", []
    return True


def break_case(config: pytest.Config) -> None:
    """Make the current test case of Allure broken, which takes each :func:`pytest.fail` for a failed test."""
    listener: Any = config.pluginmanager.get_plugin("allure_listener")
    if listener is not None:
        listener.allure_logger.get_test(None).status = "broken"
