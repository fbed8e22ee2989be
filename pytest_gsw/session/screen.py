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


def end_line(config: pytest.Config) -> None:
    """End an unfinished line, of rows or of other tests."""
    reporter = terminal_reporter(config)
    with contextlib.suppress(OSError):  # a closed terminal must not keep jobs from being cancelled
        if reporter is not None:
            reporter.ensure_newline()
            writer = config.get_terminal_writer()
            if writer.width_of_current_line:
                writer.line()


def write(config: pytest.Config, line: str) -> None:
    """Write a line of its own."""
    line = redact(line, os.environ)
    reporter = terminal_reporter(config)
    with contextlib.suppress(OSError):  # a closed terminal must not stop the monitoring of jobs
        if reporter is not None:
            clear_live(config)
            end_line(config)
            reporter.write_line(line)
        else:
            sys.stdout.write(f"{line}\n")


def write_live(config: pytest.Config, text: str) -> None:
    """Write a line that the next one replaces, as wide as the terminal."""
    if _LIVE not in config.stash:
        end_line(config)
    config.stash[_LIVE] = True
    _rewrite(text)


def clear_live(config: pytest.Config) -> None:
    """Clear the progress line before other output."""
    if _LIVE in config.stash:
        del config.stash[_LIVE]
        _rewrite("")


def _rewrite(text: str) -> None:
    """Write to the terminal past pytest, which takes the line for empty."""
    widest = shutil.get_terminal_size().columns - 1
    with contextlib.suppress(OSError):
        sys.stdout.write(f"\r{text[:widest].ljust(widest)}\r")
        sys.stdout.flush()


#: The reason why rows are skipped for lack of a cluster.
NO_CLUSTER = "no cluster: give --gsw-cluster=NAME to run it, or --gsw-replay=PATH to judge a log"
