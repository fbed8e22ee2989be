"""Signals as a test's child is to find them, however the tests themselves were started."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import Any


def hear_hangup() -> None:
    """For ``preexec_fn``: what ``nohup`` starts ignores SIGHUP, and so would every process that a test starts."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def end(session: subprocess.Popen[Any]) -> None:
    """Ask a session to end, as one that has jobs must be if they are to end with it, and kill it if it does not."""
    session.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        session.wait(120)
    session.kill()
    session.wait()
