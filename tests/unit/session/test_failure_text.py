"""How the failure of a row is reported: its whole text, and its first line if there is one line only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.session.failure_text import fail, fail_report, failure_of, shorten_failure, show_fact

TEXT = "throughput is 10 % below\n\nlog        a.log\nnext       run it again"


@pytest.fixture
def item(request: pytest.FixtureRequest) -> pytest.Item:
    """An item of pytest's."""
    found: pytest.Item = request.node
    return found


def test_a_failure_has_no_traceback() -> None:
    with pytest.raises(pytest.fail.Exception) as raised:
        fail(TEXT)
    assert (str(raised.value), raised.value.pytrace) == (TEXT, False)


def test_one_line_has_the_fact_and_the_place_of_the_row(item: pytest.Item) -> None:
    shown = failure_of(item, TEXT)
    path, line, _ = item.location
    assert str(shown) == TEXT
    assert shown.reprcrash.message == "throughput is 10 % below"
    assert (shown.reprcrash.path, shown.reprcrash.lineno) == (path, (line or 0) + 1)


def test_a_report_of_another_outcome_becomes_a_failure(item: pytest.Item) -> None:
    report = pytest.TestReport(item.nodeid, item.location, {}, "passed", None, "call")
    fail_report(item, report, TEXT)
    assert (report.outcome, str(report.longrepr)) == ("failed", TEXT)


def test_another_line_than_the_first(item: pytest.Item) -> None:
    report: Any = SimpleNamespace(longrepr=failure_of(item, TEXT))
    shorten_failure(report, "-10.0 %")
    assert report.longrepr.reprcrash.message == "-10.0 %"


def test_a_failure_without_a_place_is_left_as_it_is() -> None:
    report: Any = SimpleNamespace(longrepr="a text")
    shorten_failure(report, "-10.0 %")
    assert report.longrepr == "a text"


@pytest.mark.parametrize(("error", "is_shown"), [(pytest.fail.Exception("a fact\nmore"), True), (KeyError("x"), False)])
def test_only_a_failure_in_words_has_a_fact(item: pytest.Item, error: BaseException, is_shown: bool) -> None:
    def raise_it() -> None:
        raise error

    call = pytest.CallInfo.from_call(raise_it, "call")
    report = pytest.TestReport.from_item_and_call(item, call)
    show_fact(item, call, report)
    crash: Any = report.longrepr.reprcrash  # type: ignore[union-attr]
    assert (crash.message == "a fact") == is_shown
