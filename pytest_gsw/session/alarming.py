"""What a session says of alarms at its end, by the history that its records have gone to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from pytest_gsw.common.redact import quoted
from pytest_gsw.history.alarm_texts import line_of, next_line
from pytest_gsw.history.alarms import Alarm, Kind, State
from pytest_gsw.history.errors import HistoryError
from pytest_gsw.history.spells import alarms_of_records
from pytest_gsw.history.suspects import Suspect
from pytest_gsw.reports.read import accepted_in
from pytest_gsw.results.record import Record
from pytest_gsw.session.nights import history_at
from pytest_gsw.session.settings import Settings


def alarm_lines(
    settings: Settings, records: Iterable[Record], slow_before: Sequence[Suspect] | None
) -> tuple[str, ...]:
    """The alarms of the session's rows, and of its cluster's nodes, a line each; none where the rows say it all.

    Args:
        settings: The session's.
        records: Its records, which the history has as well.
        slow_before: The nodes that were slow before, where that is known.
    """
    ran = tuple(records)
    try:
        with history_at(settings.history) as history:
            accepted = accepted_in(settings.baselines, ran) or {}
            found = () if history is None else alarms_of_records(history, ran, accepted, time.time(), slow_before)
    except HistoryError as error:
        return (quoted(f"not known: {error}", os.environ),)
    if all(map(_is_said, found)):
        return ()
    lines = (line for one in found for line in (line_of(one), next_line(one)) if line)
    return tuple(quoted(tuple(lines), os.environ))


def _is_said(alarm: Alarm) -> bool:
    """Whether a row's own line says it all: that it is slow tonight."""
    return alarm.state is State.NEW and alarm.spell.kind is Kind.REGRESSION
