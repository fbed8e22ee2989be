"""Terminals that were closed: what is written to them fails, and must not take the session's work with it."""

from __future__ import annotations

import contextlib
import os
import stat
import termios
from collections.abc import Set as AbstractSet
from pathlib import Path


def terminals() -> frozenset[int]:
    """The terminals that this process may write to, by their device numbers."""
    return frozenset(os.fstat(number).st_rdev for number in (0, 1, 2) if _is_terminal(number))


def leave_closed(known: AbstractSet[int]) -> None:
    """Let what goes to a terminal that was closed go nowhere.

    pytest keeps descriptors of its own while it captures output; all of them are found by the device.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        for name in [entry.name for entry in Path("/proc/self/fd").iterdir()]:
            number = int(name)
            with contextlib.suppress(OSError):
                found = os.fstat(number)
                if stat.S_ISCHR(found.st_mode) and found.st_rdev in known and _is_closed(number):
                    os.dup2(nowhere, number)
    finally:
        os.close(nowhere)


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False


def _is_closed(number: int) -> bool:
    try:
        termios.tcgetattr(number)
    except termios.error:
        return True
    return False
