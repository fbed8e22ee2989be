"""What people and the program have decided about runs: events that are appended, and never changed.

Who takes a decision back adds an event that revokes it, so that a history tells what counted at any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_gsw.common.redact import printable
from pytest_gsw.history.database import Database
from pytest_gsw.history.errors import HistoryError

#: A run whose nights say nothing of its rows; the subject is its id.
EXCLUDE = "exclude"
#: An alarm that somebody looks after; the subject is its identity.
ACKNOWLEDGE = "acknowledge"
#: What takes another one back.
REVOKE = "revoke"

_to_json = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True)
class Event:
    """One decision."""

    kind: str
    subject: str
    cluster: str
    #: When it was taken, seconds since the epoch.
    time_s: float
    #: Why, who, until when, and the like.
    body: Mapping[str, Any] = field(default_factory=dict)
    #: The number of the event that this one takes back.
    revokes: int | None = None
    #: Its number, 0 before it is kept.
    id: int = 0


def standing(events: Iterable[Event]) -> tuple[Event, ...]:
    """Those that count: neither taken back, nor what takes others back."""
    all_of_them = tuple(events)
    revoked = {one.revokes for one in all_of_them}
    return tuple(one for one in all_of_them if one.revokes is None and one.id not in revoked)


def read_events(database: Database) -> tuple[Event, ...]:
    """All events, in the order in which they were kept.

    Raises:
        HistoryError: One cannot be read.
    """
    found = database.execute("SELECT kind, subject, cluster, time_s, body, revokes, id FROM gsw_event ORDER BY id")
    try:
        return tuple(
            Event(kind, subject, cluster, time_s, json.loads(body), revokes, number)
            for kind, subject, cluster, time_s, body, revokes, number in found
        )
    except ValueError as error:
        raise HistoryError(f"an event in {database.shown} cannot be read: {error}") from None


def add_event(database: Database, event: Event) -> Event:
    """Keep an event, in a transaction of the caller's; the event with its number.

    Raises:
        HistoryError: It takes back an event that is not there, or was taken back already.
    """
    if event.revokes is not None and event.revokes not in {one.id for one in standing(read_events(database))}:
        raise HistoryError(f"no event {event.revokes} stands in {database.shown}")
    texts = [printable(text) for text in (event.cluster, event.kind, event.subject)]
    database.execute(
        "INSERT INTO gsw_event (time_s, cluster, kind, subject, body, revokes) VALUES (?, ?, ?, ?, ?, ?)",
        (event.time_s, *texts, _to_json(dict(event.body)), event.revokes),
    )
    # Not RETURNING, which SQLite knows since 3.35 only.
    same = "SELECT MAX(id) FROM gsw_event WHERE time_s = ? AND cluster = ? AND kind = ? AND subject = ?"
    ((number,),) = database.execute(same, (event.time_s, *texts))
    return replace(event, id=number)
