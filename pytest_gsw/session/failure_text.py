"""Failures of rows as pytest reports them: the whole text, and its fact if there is one line only."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest


class TellsFact:
    """An item whose failure is a text with a one-line fact at its beginning."""


def fail(text: str) -> NoReturn:
    """End a phase of an item by a failure: the text is the report, in set-up and call alike, without a traceback."""
    raise pytest.fail.Exception(text, pytrace=False) from None


def fail_report(item: pytest.Item, report: pytest.TestReport, text: str) -> None:
    """Make a failure of a report, whatever ended the item."""
    report.outcome, report.longrepr = "failed", failure_of(item, text)


def failure_of(item: pytest.Item, text: str) -> Any:
    """Representation of a failure with this text, as pytest would make it."""
    try:
        fail(text)
    except pytest.fail.Exception:
        shown: Any = item.repr_failure(pytest.ExceptionInfo.from_current())
        return _with_fact(item, shown, text)


def show_fact(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Use the first line of a failure's text in the short summary, in ``--tb=line`` and as JUnit's message."""
    if (
        report.outcome == "failed"
        and call.excinfo is not None
        and isinstance(call.excinfo.value, pytest.fail.Exception)
    ):
        _with_fact(item, report.longrepr, str(call.excinfo.value))


def shorten_failure(report: pytest.TestReport, fact: str) -> None:
    """Use another line than the text's first one in the short summary."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = fact


def _with_fact(item: pytest.Item, shown: Any, text: str) -> Any:
    """Set the fact and the row's place in its table, instead of the whole text and a place in this package."""
    crash = getattr(shown, "reprcrash", None)
    if crash is not None:
        crash.message = text.partition("\n")[0]
        crash.path, crash.lineno = item.location[0], (item.location[1] or 0) + 1
    return shown
