"""What is new, still broken and mended in a night, by what the runs before it came to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_gsw.history.alarms import Alarm, Kind, State
from pytest_gsw.reports.rows import Row, is_broken

#: What became of an alarm, by the list that it stands in.
_STATES = {
    State.NEW: "new",
    State.WORSE: "new",
    State.STILL: "still",
    State.MENDED: "mended",
}


@dataclass(frozen=True)
class Turned:
    """What is of one kind: rows, and what is wrong with nodes, with the cluster and with rows that passed."""

    rows: tuple[Row, ...]
    alarms: tuple[Alarm, ...]

    @property
    def count(self) -> int:
        """How many there are of both."""
        return len(self.rows) + len(self.alarms)


@dataclass(frozen=True)
class Lately:
    """What became of a night's rows since their runs before."""

    #: When the last of those began, seconds since the epoch.
    before_s: float
    new: Turned
    still: Turned
    mended: Turned
    #: The ids of rows without a record: nobody knows what became of these.
    unrecorded: tuple[str, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is broken, and nothing was."""
        return not (self.new.count or self.still.count or self.mended.count or self.unrecorded)


def lately(rows: Iterable[Row], alarms: Iterable[Alarm], unrecorded: tuple[str, ...] = ()) -> Lately | None:
    """What became of a night's rows since their runs before; ``None`` where no such run is known.

    A row is new where it is broken tonight (regressed, inconclusive, an error) and was not in its run before, or had
    none. What the rows themselves say is not said again by their alarms.
    """
    known = list(rows)
    before = [row.before for row in known if row.before is not None]
    if not before:
        return None
    ended_s = max(one.time_s for one in before)
    of_rows: dict[str, list[Row]] = {"new": [], "still": [], "mended": []}
    for row in known:
        if turn := _turn(row):
            of_rows[turn].append(row)
    told = {row.record.row.id for one in of_rows.values() for row in one}
    of_alarms: dict[str, list[Alarm]] = {"new": [], "still": [], "mended": []}
    for alarm in alarms:
        turn = _STATES.get(alarm.state, "")
        is_old = turn == "mended" and (alarm.spell.mended_s or 0.0) <= ended_s
        if turn and not is_old and not _is_said(alarm, told):
            of_alarms[turn].append(alarm)
    turned = {turn: Turned(tuple(of_rows[turn]), tuple(of_alarms[turn])) for turn in of_rows}
    return Lately(max(one.begin_s for one in before), **turned, unrecorded=unrecorded)


def _turn(row: Row) -> str:
    before = row.before
    was_broken = before is not None and is_broken(before.outcome)
    if is_broken(row.record.outcome):
        return "still" if was_broken else "new"
    return "mended" if was_broken and row.says_something else ""


def _is_said(alarm: Alarm, told: Iterable[str]) -> bool:
    """Whether a row says it, or another alarm."""
    return alarm.spell.kind is Kind.REGRESSION or alarm.spell.subject in told or bool(alarm.part_of)
