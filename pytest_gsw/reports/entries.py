"""What stands in the lists of what is new, still broken and mended: the same on the page and in summaries for CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.common.words import counted
from pytest_gsw.history.alarms import Alarm, Kind
from pytest_gsw.reports.lately import Turned
from pytest_gsw.reports.night import Night
from pytest_gsw.reports.rows import Row, worst_first


@dataclass(frozen=True)
class Alike:
    """Rows that are one entry: part of an incident, or without a figure for the same cause."""

    text: str
    #: The number of their cause among the night's, from 1; 0 for an incident.
    cause: int


def entries(turned: Turned, night: Night) -> Sequence[Alarm | Alike | Row]:
    """The entries of a list: what stands for many rows comes first, and then the worst."""
    # A row that drifts has passed: what is broken comes first.
    drifts = [one for one in turned.alarms if one.spell.kind is Kind.DRIFT]
    others = [one for one in turned.alarms if one.spell.kind is not Kind.DRIFT]
    alike, said = _alike({row.name: row for row in turned.rows}, night)
    rows = sorted((row for row in turned.rows if row.name not in said), key=worst_first)
    return [*others, *alike, *rows, *drifts]


def _alike(told: dict[str, Row], night: Night) -> tuple[list[Alike], set[str]]:
    """The entries of several rows, and the names of these."""
    parts = () if night.incident is None else night.incident.parts
    said = {name for name, row in told.items() if row.record.row.node_id in parts}
    found = [Alike(f"{counted(len(said), 'row')}: part of what the whole cluster has", 0)] if said else []
    for number, cause in enumerate(night.causes, 1):
        of_cause = {row.name for row in cause.rows if row.name in told}
        if len(of_cause) > 1:
            found.append(Alike(f"{counted(len(of_cause), 'row')}: {cause.fact}", number))
            said |= of_cause
    return found, said
