"""Prints, last, what came of each row."""

from __future__ import annotations

import pytest

_MATRIX = pytest.StashKey[list[str]]()
_HEAD = ("| release | recipe | row | outcome |", "|---|---|---|---|")


@pytest.fixture
def matrix(request: pytest.FixtureRequest) -> list[str]:
    """A line for each row that was run."""
    return request.config.stash.setdefault(_MATRIX, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(_MATRIX, [])
    for line in (*_HEAD, *lines) if lines else ():
        terminalreporter.write_line(line)
