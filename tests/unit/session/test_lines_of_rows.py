"""The line of a row on the screen, by the report that pytest got of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.results import outcomes
from pytest_gsw.results.manifest import CaseBesideRows
from pytest_gsw.session.terminal import line_of_report, line_width, wrapped
from tests.unit.results.records import SLOW

WORDS = "one two three four five six seven eight nine ten"


def report(outcome: str, when: str = "call", longrepr: object = "", **facts: Any) -> Any:
    return SimpleNamespace(nodeid="t.yaml::a[H100x8]", outcome=outcome, when=when, longrepr=longrepr, **facts)


def test_a_row_that_was_judged() -> None:
    line = line_of_report(report("failed", gsw_record=SLOW, gsw_said=""))
    assert (line.row, line.word) == ("a[H100x8]", outcomes.REGRESSED.shown)


def test_a_row_that_was_skipped_has_its_reason() -> None:
    line = line_of_report(report("skipped", "setup", ("t.yaml", 1, "Skipped: no cluster\nmore")))
    assert (line.row, line.word, line.parts) == ("a[H100x8]", "SKIPPED", ("no cluster",))


def test_an_expected_failure_has_the_reason_of_its_marker() -> None:
    assert line_of_report(report("skipped", wasxfail="known to hang")).parts == ("known to hang",)


@pytest.mark.parametrize(("when", "word"), [("setup", "ERROR"), ("call", "FAILED")])
def test_a_row_without_a_record(when: str, word: str) -> None:
    line = line_of_report(report("failed", when, "a fact\nmore"))
    assert (line.word, line.parts) == (word, ("a fact",))


def test_a_row_that_passed_without_a_record() -> None:
    assert line_of_report(report("passed")).word == "PASSED"


def test_a_case_beside_rows() -> None:
    text = "node n1: slow -10 %\nmore"
    case = CaseBesideRows("nodes::n1", "eos", "n1", "node n1", "SLOW", "failed", 1, "-10 %", "gsw_nodes", text)
    line = line_of_report(report("failed", gsw_case=case))
    assert (line.row, line.word, line.parts) == ("node n1", "SLOW", ("-10 %",))


def test_a_long_line_is_wrapped() -> None:
    assert wrapped(WORDS, 20) == ["one two three four", "    five six seven", "    eight nine ten"]
    assert wrapped(WORDS, 200) == [WORDS]


def test_a_command_is_not_wrapped() -> None:
    line = f"next: pytest --gsw-cluster=eos {WORDS}"
    assert wrapped(line, 20) == [line]


def test_lines_are_no_wider_than_windows_in_which_logs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    terminal: Any = SimpleNamespace(isatty=True)
    file: Any = SimpleNamespace(isatty=False)
    assert line_width(terminal) == 59
    assert line_width(file) > 59
    monkeypatch.setenv("COLUMNS", "600")
    assert line_width(terminal) == line_width(file)
