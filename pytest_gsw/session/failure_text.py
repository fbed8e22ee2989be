"""Failures of rows as pytest reports them: the whole text, and its fact if there is one line only."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest


class OneLineFailure:
    """An item whose failure is a text with a one-line fact at its beginning."""


def fail(text: str) -> NoReturn:
    """End a phase of an item by a failure: the text is the report, in set-up and call alike, without a traceback."""
    raise pytest.fail.Exception(text, pytrace=False) from None


def fail_report(item: pytest.Item, report: pytest.TestReport, text: str) -> None:
    """Make a failure of a report, whatever ended the item."""
    report.outcome, report.longrepr = "failed", failure_of(text, *item.location[:2])


def failure_of(text: str, path: str, line: int | None = None, fact: str = "") -> Any:
    """Representation of a failure with this text at a place, as pytest would make it; the fact is its first line."""
    try:
        fail(text)
    except pytest.fail.Exception:
        return _with_fact(pytest.ExceptionInfo.from_current().getrepr(style="value"), fact or text, path, line)


def show_fact(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Use the first line of a failure's text in the short summary, in ``--tb=line`` and as JUnit's message."""
    if (
        report.outcome == "failed"
        and call.excinfo is not None
        and isinstance(call.excinfo.value, pytest.fail.Exception)
    ):
        _with_fact(report.longrepr, str(call.excinfo.value), *item.location[:2])


def shorten_failure(report: pytest.TestReport, text: str, fact: str) -> None:
    """Use another line than the text's first one in the short summary, unless the failure is another one."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and crash.message == text.partition("\n")[0]:
        crash.message = fact


def _with_fact(shown: Any, text: str, path: str, line: int | None) -> Any:
    """Set the fact and the row's place in its table, instead of the whole text and a place in this package."""
    crash = getattr(shown, "reprcrash", None)
    if crash is not None:
        crash.message = text.partition("\n")[0]
        crash.path, crash.lineno = path, (line or 0) + 1
    return shown
