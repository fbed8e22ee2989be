"""Simulated logs as events and as bytes, and changes of their figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pytest_gsw.demo.writers import Event

#: By so many bytes before it a figure is found.
_WORDS_BYTES = 8


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


def with_figure(events: Iterable[Event], text: str, step: int) -> Iterator[Event]:
    """The events with another figure for one step, by whichever rank."""
    for event in events:
        if event.figure_end and event.step == step:
            data = event.data[: figure_start(event)] + text.encode() + event.data[event.figure_end + 1 :]
            yield event._replace(data=data)
        else:
            yield event


def with_all_figures(events: Iterable[Event], text: str) -> bytes:
    """The log with another figure wherever there is one, also where a bar is repainted with it."""
    events = tuple(events)
    event = next(event for event in events if event.figure_end)
    start = figure_start(event)
    before = event.data[start - _WORDS_BYTES : start]
    return re.sub(re.escape(before) + _FIGURE, before + text.encode(), as_bytes(events))


def restarted(event: Event) -> Event:
    """What a later process writes: absl shows its thread, which is another one."""
    return event._replace(data=re.sub(rb"(?<= )1396837(\d{8}) (?=\w+\.py:)", rb"1397001\1 ", event.data))
