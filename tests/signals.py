"""Signals as a test's child is to find them, however the tests themselves were started."""

from __future__ import annotations

import signal


def hear_hangup() -> None:
    """For ``preexec_fn``: what ``nohup`` starts ignores SIGHUP, and so would every process that a test starts."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
