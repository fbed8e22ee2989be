"""Alarms in words, the same in a terminal, a report and a CI server."""

from __future__ import annotations

from pytest_gsw.common.words import command, counted, day, minute, percent
from pytest_gsw.history.alarms import Alarm, Kind, Spell, State
from pytest_gsw.history.model import SIMULATED
from pytest_gsw.history.past import GONE_DAYS
from pytest_gsw.performance.noise import ACCEPTED_JOBS

#: Of a list of alarms; what is a number has ">" before it.
COLUMNS = ("id", "alarm", "state", "of", "cluster", ">against usual", "since", ">runs with it", "acknowledged")

#: Nights after which a row that was never fast enough is one of a figure that is not this cluster's.
_NEVER_NIGHTS = 3


def cells(alarm: Alarm) -> tuple[str, ...]:
    """One line of a list."""
    spell = alarm.spell
    change = "" if alarm.change is None else percent(alarm.change)
    nights = str(len(spell.nights))
    said = (alarm.id, spell.kind.value, state_text(alarm), spell.subject, spell.cluster)
    return (*said, change, minute(alarm.since_s), nights, acknowledged_text(alarm))


def state_text(alarm: Alarm) -> str:
    """What became of an alarm: ``new``, ``still (1 of 2 passes)``, ``over since 2026-11-23 16:11``.

    One that is mended is *over*: "mended" is said of what was broken in the run before.
    """
    if alarm.state is State.MENDED:
        return f"over since {minute(alarm.mended_s or 0.0)}"
    good = good_text(alarm.spell) if alarm.state is State.STILL else ""
    return f"{alarm.state.value} ({good})" if good else f"{alarm.state.value}"


def good_text(spell: Spell) -> str:
    """How many of the good runs that end it a spell has by now, ``1 of 2 passes``; empty where it has none."""
    what = "passes" if spell.kind is Kind.REGRESSION else "runs without it"
    return f"{spell.good_nights} of {spell.ends_after} {what}" if spell.good_nights else ""


def acknowledged_text(alarm: Alarm) -> str:
    """Which other alarm explains an alarm; who looks after it, until when, and why; empty where nobody does."""
    known, part = alarm.acknowledged, f"part of {alarm.part_of}" if alarm.part_of else ""
    if known is None:
        return part
    # The night that an acknowledgement ends with belongs to the day before.
    by = f"{known.owner} until {day(known.until_s - 1)}: {known.why}"
    return f"{by} (pages again)" if alarm.pages else "; ".join(filter(None, (part, by)))


def is_never_fast_enough(alarm: Alarm) -> bool:
    """Whether a row has been too slow on all nights that are known of it."""
    spell = alarm.spell
    return spell.kind is Kind.REGRESSION and spell.is_always and len(spell.nights) >= _NEVER_NIGHTS and alarm.stands


def away_text(alarm: Alarm) -> str:
    """Since when nothing was measured of what an alarm is of, where that is so; empty elsewhere."""
    spell = alarm.spell
    if not spell.is_away:
        return ""
    return f"{'ran no job' if spell.kind is Kind.NODE else 'was not measured'} since {minute(spell.last_s)}"


def next_line(alarm: Alarm) -> str:
    """What to do about an alarm, or what becomes of it, where more is known than that it stands; empty elsewhere."""
    if away := away_text(alarm):
        end = "has ended" if alarm.state is State.GONE else f"ends {GONE_DAYS} days after that"
        return f"{alarm.spell.subject} {away} on {alarm.spell.cluster}; its alarm {end}"
    row, cluster = alarm.spell.subject, alarm.spell.cluster
    if not is_never_fast_enough(alarm) or cluster == SIMULATED:  # no figure that is made up is ever proposed
        return ""
    never = f"{row} was never within its tolerance on {cluster}; if that is how it is"
    runs = [night.run_id for night in alarm.spell.nights[-ACCEPTED_JOBS:]]
    if len(runs) < ACCEPTED_JOBS:
        return f"{never}, {ACCEPTED_JOBS} runs tell the figure that it may have there"
    return f"{never}: {command('pytest-gsw', 'baseline', 'propose', f'--row={row}', f'--cluster={cluster}', *runs)}"


def line_of(alarm: Alarm) -> str:
    """An alarm as a session's summary says it."""
    spell = alarm.spell
    change = "" if alarm.change is None else f" {percent(alarm.change)}"
    since = f"since {minute(alarm.since_s)}, {counted(len(spell.nights), 'run')}"
    what = f"{spell.kind.value} of {spell.subject}"
    if alarm.state is State.MENDED:
        return f"{alarm.id}  {what}: {state_text(alarm)}"
    head = f"{alarm.id}  {state_text(alarm)} {what}"
    if alarm.state is State.GONE:
        return f"{head}: {away_text(alarm)}"
    known = acknowledged_text(alarm)
    return f"{head}:{change} {since}" + (f"; {known}" if known else "")
