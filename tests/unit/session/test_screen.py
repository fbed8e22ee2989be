"""Lines of a session on the screen, with a reporter and without one."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.session.screen import clear_live, write, write_live


class Reporter:
    """Notes the lines that are written."""

    def __init__(self, *, is_closed: bool = False) -> None:
        self.lines: list[str] = []
        self._is_closed = is_closed

    def ensure_newline(self) -> None:
        """Do nothing: no line is unfinished."""

    def write_line(self, line: str) -> None:
        if self._is_closed:
            raise OSError
        self.lines.append(line)


def config(reporter: Reporter | None = None, unfinished: int = 0) -> Any:
    """A config with this reporter, and so many columns of an unfinished line."""
    writer = SimpleNamespace(width_of_current_line=unfinished, line=lambda: sys.stdout.write("|end of the line\n"))
    manager = SimpleNamespace(get_plugin=lambda _: reporter)
    return SimpleNamespace(stash=pytest.Stash(), pluginmanager=manager, get_terminal_writer=lambda: writer)


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of ten columns."""
    monkeypatch.setenv("COLUMNS", "10")


def test_a_line_without_a_terminal_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    write(config(), "gsw: a line")
    assert capsys.readouterr().out == "gsw: a line\n"


def test_a_line_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123")
    reporter = Reporter()
    write(config(reporter), "key 0123456789abcdef0123")
    (line,) = reporter.lines
    assert "0123456789abcdef0123" not in line


def test_a_closed_terminal_stops_nothing() -> None:
    write(config(Reporter(is_closed=True)), "gsw: a line")


def test_an_unfinished_line_is_ended_first(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    write(config(reporter, unfinished=3), "gsw: a line")
    assert (capsys.readouterr().out, reporter.lines) == ("|end of the line\n", ["gsw: a line"])


def test_the_progress_line_is_cleared_before_others(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    session = config(reporter)
    write_live(session, "1 running")
    write_live(session, "2 running")
    assert capsys.readouterr().out == "\r1 running\r\r2 running\r"
    write(session, "gsw: a line")
    write(session, "gsw: another")
    assert (capsys.readouterr().out, reporter.lines) == (f"\r{' ' * 9}\r", ["gsw: a line", "gsw: another"])


def test_nothing_is_cleared_without_a_progress_line(capsys: pytest.CaptureFixture[str]) -> None:
    clear_live(config(Reporter()))
    assert capsys.readouterr().out == ""


def test_the_progress_line_is_cut_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    write_live(config(Reporter()), "0123456789abc")
    assert capsys.readouterr().out == "\r012345678\r"
