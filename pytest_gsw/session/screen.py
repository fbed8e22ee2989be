"""Lines on the screen of a session, in the style of pytest's own reporter."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys

import pytest

from pytest_gsw.common.redact import redact

#: True while that line is shown.
_LIVE = pytest.StashKey[bool]()


def terminal_reporter(config: pytest.Config) -> pytest.TerminalReporter | None:
    """The terminal reporter; ``None`` without one."""
    reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    return reporter


def write(config: pytest.Config, line: str) -> None:
    """Write a line of its own."""
    line = redact(line, os.environ)
    reporter = terminal_reporter(config)
    with contextlib.suppress(OSError):  # a closed terminal must not stop the monitoring of jobs
        if reporter is not None:
            clear_live(config)
            reporter.ensure_newline()
            reporter.write_line(line)
        else:
            sys.stdout.write(f"{line}\n")


def write_live(config: pytest.Config, text: str) -> None:
    """Write a line that the next one replaces, cut to the width of the terminal."""
    reporter = terminal_reporter(config)
    if reporter is not None:
        if _LIVE not in config.stash:
            reporter.ensure_newline()
        config.stash[_LIVE] = True
        with contextlib.suppress(OSError):
            reporter.rewrite(text[: shutil.get_terminal_size().columns - 1], erase=True)


def clear_live(config: pytest.Config) -> None:
    """Clear the progress line before other output."""
    reporter = terminal_reporter(config)
    if reporter is not None and _LIVE in config.stash:
        del config.stash[_LIVE]
        with contextlib.suppress(OSError):
            reporter.rewrite("", erase=True)
            reporter.write("\r")


#: The reason why rows are skipped for lack of a cluster.
NO_CLUSTER = "no cluster: give --gsw-cluster=NAME to run it, or --gsw-replay=PATH to judge a log"
