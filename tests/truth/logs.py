"""Simulated logs as events and as bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_gsw.demo.writers import Event


def as_bytes(events: Iterable[Event]) -> bytes:
    """The log that the events are."""
    return b"".join(event.data for event in events)


def steps_of(events: Iterable[Event]) -> list[int]:
    """The steps whose figures the events hold, without those of MaxText's run for the profile."""
    return sorted({event.step for event in events if event.figure_end} - {0})


#: ``7.908``, ``1,228``.
_FIGURE = rb"[0-9.]+(?:,[0-9]{3})*"


def figure_start(event: Event) -> int:
    """Where in the event's data its figure begins."""
    figure = re.search(_FIGURE + rb"\Z", event.data[: event.figure_end + 1])
    assert figure is not None  # writers mark the last character of a number
    return figure.start()


def restarted(event: Event) -> Event:
    """What a later process writes: absl shows its thread, which is another one."""
    return event._replace(data=re.sub(rb"(?<= )1396837(\d{8}) (?=\w+\.py:)", rb"1397001\1 ", event.data))
