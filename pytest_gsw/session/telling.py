"""What pytest shows of a row that has failed: its whole text, and its fact wherever there is room for one line."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest


class TellsFact:
    """An item whose failure is a text that begins with a fact of one line."""


def fail(text: str) -> NoReturn:
    """End a phase of an item by a failure: the text is the report, in set-up and call alike, without a traceback."""
    raise pytest.fail.Exception(text, pytrace=False) from None


def fail_report(item: pytest.Item, report: pytest.TestReport, text: str) -> None:
    """Make a failure of a report, whatever has ended the item."""
    report.outcome, report.longrepr = "failed", failure_of(item, text)


def failure_of(item: pytest.Item, text: str) -> Any:
    """What pytest shows of an item that failed with this text."""
    try:
        fail(text)
    except pytest.fail.Exception:
        shown: Any = item.repr_failure(pytest.ExceptionInfo.from_current())
        return _with_fact(item, shown, text)


def show_fact(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Give the short summary, ``--tb=line`` and JUnit's message one line of a text that is to be the report."""
    if (
        report.outcome == "failed"
        and call.excinfo is not None
        and isinstance(call.excinfo.value, pytest.fail.Exception)
    ):
        _with_fact(item, report.longrepr, str(call.excinfo.value))


def _with_fact(item: pytest.Item, shown: Any, text: str) -> Any:
    """With the fact, and the row's place in its table: pytest has the whole text, and a place in this package."""
    crash = getattr(shown, "reprcrash", None)
    if crash is not None:
        crash.message = text.partition("\n")[0]
        crash.path, crash.lineno = item.location[0], (item.location[1] or 0) + 1
    return shown
