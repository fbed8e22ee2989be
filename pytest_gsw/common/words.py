"""Words that many messages are made of."""

from __future__ import annotations

import time


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: ``1 row``, ``2 rows``.

    Args:
        count: How many.
        noun: What, for one.
        plural: What, for several; the noun with an "s" by default.
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def day(time_s: float) -> str:
    """The day of a time on this machine's calendar, ``2026-11-20``; empty where the calendar has none."""
    try:
        return time.strftime("%Y-%m-%d", time.localtime(time_s))
    except (OverflowError, ValueError, OSError):  # by how far off it is
        return ""


def percent(fraction: float) -> str:
    """A change with its sign: ``+12.2 %``."""
    return f"{round(fraction * 100, 1) + 0.0:+.1f} %"  # adding zero makes of -0.0, "-0.0 %", a zero


def share(fraction: float) -> str:
    """A share of the whole: ``42.7 %``."""
    return f"{fraction * 100:.1f} %"
