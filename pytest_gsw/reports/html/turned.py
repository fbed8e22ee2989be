"""What is new, still broken and mended since the runs before: the first thing on a night's page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from pytest_gsw.common.words import counted
from pytest_gsw.history.alarm_texts import good_text
from pytest_gsw.history.alarms import Alarm, Kind, Spell
from pytest_gsw.history.model import cluster_of
from pytest_gsw.reports.entries import Alike, entries
from pytest_gsw.reports.html.elements import Content, element
from pytest_gsw.reports.html.layout import row_link, section, sign
from pytest_gsw.reports.html.texts import minute, percent
from pytest_gsw.reports.lately import Turned
from pytest_gsw.reports.night import Night
from pytest_gsw.reports.rows import Row
from pytest_gsw.results import attention, outcomes

#: Entries of one list; the list of all rows has the others.
_NAMED = 8

#: Where more is said of an alarm, and as what it is said here.
_OF_ALARMS = {
    Kind.INCIDENT: ("#alarms", "the whole cluster was slower", attention.REGRESSED.kind),
    Kind.NODE: ("jobs.html#slow", "slow node", attention.REGRESSED.kind),
    Kind.DRIFT: ("#alarms", "drifts", attention.DRIFT.kind),
    Kind.REGRESSION: ("#alarms", outcomes.REGRESSED.word, attention.REGRESSED.kind),
}


def turned_section(night: Night) -> ET.Element | None:
    """Short lists with their counts; nothing where no run before is known."""
    found = night.lately
    if found is None:
        return None
    heading = f"Since the last run, {minute(found.before_s)}"
    if found.is_quiet:
        return section("lately", heading, element("p", "Nothing is broken, and nothing was."))
    lists = [
        _list("new", "New", found.new, night, "nothing new"),
        _list("still", "Still broken", found.still, night, "nothing"),
        _list("mended", "Mended", found.mended, night, "nothing"),
    ]
    if found.unrecorded:
        lists.append(_unrecorded(found.unrecorded))
    return section("lately", heading, element("div", *lists, class_="turned"))


def _list(turn: str, heading: str, turned: Turned, night: Night, nothing: str) -> ET.Element:
    told = [_entry_of(turn, one, night) for one in entries(turned, night)]
    return _card(turn, f"{heading} ({turned.count})", told, nothing)


def _unrecorded(rows: Sequence[str]) -> ET.Element:
    told = [_entry(attention.ERROR.kind, element("a", row, href="#missing")) for row in rows]
    return _card("still", f"Without a verdict ({len(rows)})", told, "nothing")


def _card(turn: str, heading: str, told: Sequence[ET.Element], nothing: str) -> ET.Element:
    left = len(told) - _NAMED
    more = element("li", f"and {left} more, ", element("a", "in the list of all rows", href="#rows"))
    shown = [*told[:_NAMED], *([more] if left > 0 else [])]
    return element(
        "div",
        element("h3", heading),
        element("ul", *shown, class_="rows") if shown else element("p", nothing),
        class_=f"card {turn}",
    )


def _entry_of(turn: str, one: Alarm | Alike | Row, night: Night) -> ET.Element:
    if isinstance(one, Alarm):
        return _alarm(one, night)
    if isinstance(one, Row):
        return _mended(one, _standing(one, night)) if turn == "mended" else _broken(one, turn)
    kind = attention.ERROR.kind if one.cause else attention.INCONCLUSIVE.kind
    return _entry(kind, element("a", one.text, href=f"#cause-{one.cause}" if one.cause else "#cluster"))


def _standing(row: Row, night: Night) -> Spell | None:
    """What a row's alarm is of, where that stands."""
    raised = (one.spell for one in night.alarms if one.stands and one.spell.kind is Kind.REGRESSION)
    of_row = (cluster_of(row.record), row.record.row.id)
    return next((spell for spell in raised if (spell.cluster, spell.subject) == of_row), None)


def _broken(row: Row, turn: str) -> ET.Element:
    first_s, runs = row.broken_since
    since = f", since {minute(first_s)}, {counted(runs, 'run')}" if turn == "still" else ""
    was = "" if row.before is None or turn == "new" else _was(row, row.before.outcome)
    first = ", its first run" if row.before is None else ""
    change = "" if row.change is None else f" {percent(row.change)}"
    return _entry(row.kind, row_link(row), f" {_word(row)}{change}{since}{was}{first}")


def _mended(row: Row, standing: Spell | None) -> ET.Element:
    """A row that is well again; its alarm may stand, because one good run may be chance."""
    was = "" if row.before is None else f", was {outcomes.of(row.before.outcome).attention.word or 'broken'}"
    change = "" if row.change is None else f" {percent(row.change)}"
    good = "" if standing is None else good_text(standing)
    alarm = "" if standing is None else f"; its alarm stands{f' ({good})' if good else ''}"
    return _entry(row.kind, row_link(row), f" {_word(row)}{change}{was}{alarm}")


def _was(row: Row, before: str) -> str:
    return "" if before == row.record.outcome else f", {outcomes.of(before).attention.in_report.word} before"


def _word(row: Row) -> str:
    known = outcomes.of(row.record.outcome)
    return known.counted or known.text if known.known else row.needs.word


def _alarm(alarm: Alarm, night: Night) -> ET.Element:
    address, what, kind = _OF_ALARMS[alarm.spell.kind]
    spell = alarm.spell
    name = "" if spell.kind is Kind.INCIDENT else f"{spell.subject}: "
    figure = alarm.change
    if spell.kind is Kind.INCIDENT and night.incident is not None and alarm.stands:
        # Of an incident of this night there is one figure, the night's own.
        address, what, figure = "#cluster", "the whole cluster is slower", night.incident.change
    change = "" if figure is None else f" {percent(figure)}"
    change += " against its first runs" if change and spell.kind is Kind.DRIFT else ""
    until = f", over since {minute(alarm.mended_s)}" if alarm.mended_s is not None else ""
    good = "" if until else good_text(spell)
    told = f"{change}, since {minute(alarm.since_s)}{until}{f' ({good})' if good else ''}"
    return _entry(kind, element("a", f"{name}{what}", href=address), told)


def _entry(kind: str, *contents: Content) -> ET.Element:
    return element("li", sign(kind), " ", *contents)
