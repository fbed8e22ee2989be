"""Lines of a session on the screen, with a reporter and without one."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gsw.session.screen import clear_live, write, write_live


class Reporter:
    """Notes what is written."""

    def __init__(self, *, is_closed: bool = False) -> None:
        self.written: list[str] = []
        self._is_closed = is_closed

    def ensure_newline(self) -> None:
        self.written.append("")

    def write_line(self, line: str) -> None:
        if self._is_closed:
            raise OSError
        self.written.append(f"{line}\n")

    def write(self, text: str) -> None:
        self.written.append(text)

    def rewrite(self, text: str, *, erase: bool) -> None:
        self.written.append(f"\r{text}")


class Config:
    """A config with this reporter."""

    def __init__(self, reporter: Reporter | None) -> None:
        self.stash = pytest.Stash()
        self.pluginmanager = self
        self._reporter = reporter

    def get_plugin(self, _: str) -> Reporter | None:
        return self._reporter


def config(reporter: Reporter | None = None) -> Any:
    return Config(reporter)


def test_a_line_without_a_terminal_plugin(capsys: pytest.CaptureFixture[str]) -> None:
    write(config(), "gsw: a line")
    write_live(config(), "of no terminal")
    clear_live(config())
    assert capsys.readouterr().out == "gsw: a line\n"


def test_a_line_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123")
    reporter = Reporter()
    write(config(reporter), "key 0123456789abcdef0123")
    assert "0123456789abcdef0123" not in "".join(reporter.written)


def test_a_closed_terminal_stops_nothing() -> None:
    write(config(Reporter(is_closed=True)), "gsw: a line")


def test_the_progress_line_is_cleared_before_others() -> None:
    reporter = Reporter()
    session = config(reporter)
    write_live(session, "1 running")
    write_live(session, "2 running")
    write(session, "gsw: a line")
    write(session, "gsw: another")
    assert reporter.written == ["", "\r1 running", "\r2 running", "\r", "\r", "", "gsw: a line\n", "", "gsw: another\n"]


def test_the_progress_line_is_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    reporter = Reporter()
    write_live(config(reporter), "0123456789abc")
    assert reporter.written[-1] == "\r012345678"
